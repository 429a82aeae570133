"""Options of adapters, which make decoders of both kinds: which are for CTC models, and which for transducers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SHARED = {"device", "threads", "frame_shift"}  # options of decoders of both kinds


def transducer_options(
    of_ctc: Mapping[str, Any], options: Mapping[str, Any], transducer: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The options of a transducer's decoder; ValueError if any of a CTC model's are among those that were given."""
    given = {**options} | {name: value for name, value in of_ctc.items() if value is not None}
    if wrong := sorted(given.keys() - SHARED):
        raise ValueError(
            f"{', '.join(wrong)}: for CTC models; options of transducers are transducer={{...}}, such as "
            "ngram_lm_model and confidence"
        )
    return given | dict(transducer or {})


def check_no_transducer(transducer: Mapping[str, Any] | None) -> None:
    """ValueError if a CTC model was given options of a transducer."""
    if transducer is not None:
        raise ValueError(f"transducer: expected None for a CTC model, got {transducer!r}")


def check_pieces(names: Sequence[str], tokens: int, where: str) -> None:
    """ValueError unless a model's tokens have a name each, with or without the blank."""
    if len(names) not in (tokens, tokens - 1):
        raise ValueError(
            f"{where}: expected {tokens} tokens, or one less without the blank, as many as the model writes, got "
            f"{len(names)}: it is that of another model"
        )
