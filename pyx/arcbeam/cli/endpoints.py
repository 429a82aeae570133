"""Where the sentences of a stream end: the options of ``arcbeam stream`` and ``arcbeam transduce --chunk-frames``."""

from collections.abc import Sequence
from dataclasses import fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcbeam.cli.options import STREAMS

if TYPE_CHECKING:
    from arcbeam import Endpoint, EndpointRule

TRUTHS = {"yes": True, "true": True, "no": False, "false": False}


class Rules(StrEnum):
    """Rules by the name of a method of `Endpoint`."""

    kaldi = "kaldi"
    sherpa = "sherpa"


# fmt: off
EndpointRules = Annotated[Rules | None, typer.Option(
    "--endpoint", show_default="none", rich_help_panel=STREAMS,
    help="End sentences at pauses, by the rules of Kaldi or of sherpa: 'id-1 words', 'id-2 words' and so on for each "
    "utterance. Needs the seconds of a frame. Transducers have no relative cost, so they take those of sherpa.")]
EndpointValues = Annotated[list[str] | None, typer.Option(
    "--endpoint-rule", metavar="RULE.FIELD=VALUE", show_default=False, rich_help_panel=STREAMS,
    help="Another value of a rule of --endpoint, such as rule2.min_trailing_silence=0.8. Fields: "
    "min_trailing_silence and min_utterance_length in seconds, max_relative_cost in nats, must_contain_nonsilence, yes "
    "or no. May be given several times.")]
# fmt: on


def check_seconds(frame_shift: float | None, real_time: bool, endpoint: Rules | None) -> None:
    """Fail where the seconds of a frame are needed and not known."""
    for is_given, what, option in (
        (real_time, "real time needs", "--real-time"),
        (endpoint is not None, "pauses need", "--endpoint"),
    ):
        if is_given and frame_shift is None:
            raise typer.BadParameter(f"{what} the seconds of a frame: set --frame-shift", param_hint=f"'{option}'")


def endpoint_of(rules: Rules | None, values: Sequence[str] | None) -> "Endpoint | None":
    """The rules, with the values of the command line in place of their own; a usage error for what they lack."""
    from arcbeam import Endpoint, EndpointRule

    if rules is None:
        return None
    chosen = dict(getattr(Endpoint, rules)().rules)
    for text in values or []:
        where, _, value = text.partition("=")
        name, _, field = where.partition(".")
        try:
            chosen[name] = _changed(chosen[name], field.replace("-", "_"), value)
        except (KeyError, TypeError, ValueError) as error:
            why = f" ({error})" if isinstance(error, ValueError) else ""
            raise typer.BadParameter(
                f"expected RULE.FIELD=VALUE such as rule2.min_trailing_silence=0.8, with a rule of {rules} "
                f"({', '.join(chosen)}) and a field ({', '.join(each.name for each in fields(EndpointRule))}), got "
                f"{text!r}{why}",
                param_hint="'--endpoint-rule'",
            ) from None
    return Endpoint(chosen)


def _changed(rule: "EndpointRule", field: str, value: str) -> "EndpointRule":
    """The rule with another value; KeyError, TypeError or ValueError if it has none of this kind."""
    is_truth = isinstance(getattr(rule, field, None), bool)
    try:
        changed: dict[str, Any] = {field: TRUTHS[value] if is_truth else float(value)}
    except (KeyError, ValueError):
        raise ValueError(f"expected {'yes or no' if is_truth else 'a number'} after the =") from None
    return replace(rule, **changed)


def check_transducer(endpoint: "Endpoint | None") -> None:
    """A usage error for rules that compare paths, of which a greedy search has one."""
    costly = [] if endpoint is None else [n for n, r in endpoint.rules.items() if r.max_relative_cost != float("inf")]
    if costly:
        raise typer.BadParameter(
            "expected rules without a relative cost (max_relative_cost), such as sherpa, got one in "
            f"{', '.join(costly)}: greedy search has no other path to compare with",
            param_hint="'--endpoint'",
        )
