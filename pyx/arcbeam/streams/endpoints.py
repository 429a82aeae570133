"""When a stream of speech has come to the end of a sentence: the rules that say so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from arcbeam.core.calls import lists_fields
from arcbeam.core.checks import check_bool, check_real, keep_plain_values

EVERY = 0.2  # seconds of a sentence between two checks of its rules
MOST_RULES = 8
MOST_FRAMES = 2**32 - 1
ROUNDING = 1e-6  # of a frame, by which a time may miss it
LONGEST_SILENCE = 60.0  # seconds; more are milliseconds
RULE = ("must_contain_nonsilence", "min_trailing_silence", "max_relative_cost", "min_utterance_length")


@lists_fields
@dataclass(frozen=True, kw_only=True)
class EndpointRule:
    """The conditions of one rule, which end a sentence when all of them hold, as in Kaldi's ``OnlineEndpointRule``.

    The path is the best one so far, without final weights. Its silence is what reads the blank, or a token that
    separates words. Of a transducer it is what follows the last token, and the frames that the token's duration passes.
    """

    must_contain_nonsilence: bool = True
    """Whether the path has to read something that is not silence."""
    min_trailing_silence: float = 1.0
    """Seconds of silence at the end of the path; frames after the search has died count as silence."""
    max_relative_cost: float = math.inf
    """Cost of the best path that ends in a final state, with its final weight, above the best of all; ``math.inf``
    requires no final state. Not for transducers, which have no final states."""
    min_utterance_length: float = 0.0
    """Seconds of the sentence, silence included."""

    def __post_init__(self) -> None:
        check_bool("must_contain_nonsilence", self.must_contain_nonsilence)
        for name in ("min_trailing_silence", "min_utterance_length"):
            check_real(name, getattr(self, name), "of seconds, at least 0", above=0.0, inclusive=True)
        if self.min_trailing_silence > LONGEST_SILENCE:
            raise ValueError(
                f"min_trailing_silence: expected at most {LONGEST_SILENCE:g} seconds, got "
                f"{self.min_trailing_silence:g}; write 500 milliseconds as 0.5"
            )
        name = "max_relative_cost"
        check_real(name, self.max_relative_cost, "of at least 0", above=0.0, inclusive=True, infinite=True)
        keep_plain_values(self)


KALDI = {
    "rule1": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=5.0),
    "rule2": EndpointRule(min_trailing_silence=0.5, max_relative_cost=2.0),
    "rule3": EndpointRule(min_trailing_silence=1.0, max_relative_cost=8.0),
    "rule4": EndpointRule(min_trailing_silence=2.0),
    "rule5": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=20.0),
}
SHERPA = {
    "rule1": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=2.4),
    "rule2": EndpointRule(min_trailing_silence=1.2),
    "rule3": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=20.0),
}


@dataclass(frozen=True, init=False)
class Endpoint:
    """Rules that end the sentences of a stream: ``decoder.stream(endpoint=arcbeam.Endpoint())``.

    The rules are checked every 0.2 s of a sentence, whatever its chunks are, and the first one that holds ends it.

    Parameters
    ----------
    rules : mapping of str to EndpointRule, optional
        At most eight, with the names that ``partial.endpoint`` has for them; by default those of `kaldi`.

    Raises
    ------
    TypeError, ValueError
        No rules or too many, or something else among them.

    Examples
    --------
    >>> patient = arcbeam.Endpoint({"pause": arcbeam.EndpointRule(min_trailing_silence=1.5)})
    >>> stream = decoder.stream(endpoint=patient)
    """

    rules: Mapping[str, EndpointRule]

    def __init__(self, rules: Mapping[str, EndpointRule] | None = None) -> None:
        if rules is None:
            rules = KALDI
        if not isinstance(rules, Mapping):
            raise TypeError(f"rules: expected a mapping of names to arcbeam.EndpointRule, got {type(rules).__name__}")
        if not 1 <= len(rules) <= MOST_RULES:
            raise ValueError(f"rules: expected 1 to {MOST_RULES}, got {len(rules)}")
        for name, rule in rules.items():
            if not isinstance(name, str) or not name:
                raise TypeError(f"rules: expected a name for each rule, got {name!r}")
            if not isinstance(rule, EndpointRule):
                raise TypeError(f"rules: expected an arcbeam.EndpointRule as {name!r}, got {type(rule).__name__}")
        object.__setattr__(self, "rules", dict(rules))

    @classmethod
    def kaldi(cls) -> Self:
        """The five rules of Kaldi's ``OnlineEndpointConfig``, with its defaults.

        5 s of silence if nothing was said; 0.5 s, 1 s or 2 s after something was, the sooner the better the sentence
        may end there (relative costs of 2 and 8, or any); or a sentence of 20 s.
        """
        return cls(KALDI)

    @classmethod
    def sherpa(cls) -> Self:
        """The three rules of sherpa-onnx's ``EndpointConfig``, with its defaults.

        2.4 s of silence if nothing was said, 1.2 s after something was, or a sentence of 20 s.
        """
        return cls(SHERPA)


def endpoint_interval(frame_shift: float) -> int:
    """Frames of a sentence between two checks of its rules."""
    return max(1, round(EVERY / frame_shift))


def frames_of(seconds: float, frame_shift: float) -> int:
    """The smallest number of frames that lasts as long."""
    return max(0, min(MOST_FRAMES, math.ceil(seconds / frame_shift - ROUNDING)))


def as_facts(endpoint: Endpoint) -> list[list[Any]]:
    """The rules as plain values, for a saved stream."""
    return [[name, *(getattr(rule, field) for field in RULE)] for name, rule in endpoint.rules.items()]


def of_facts(facts: list[Any]) -> Endpoint:
    """The rules that `as_facts` has written; TypeError or ValueError if it has not."""
    return Endpoint({name: EndpointRule(**dict(zip(RULE, rule, strict=True))) for name, *rule in facts})


def check_endpoint(endpoint: object) -> None:
    """TypeError unless it is an `Endpoint` or None."""
    if endpoint is not None and not isinstance(endpoint, Endpoint):
        raise TypeError(
            f"endpoint: expected an arcbeam.Endpoint, such as arcbeam.Endpoint.kaldi(), got {type(endpoint).__name__}"
        )
