"""What the doors for models of other libraries share: options of two kinds of decoders, a model's device and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SHARED = {"device", "threads", "frame_shift"}  # options of decoders of both kinds
# Options of `ctc_decoder`; None: not given.
OF_GRAPHS = {"lm", "lexicon", "words", "blank", "word_delimiter", "topology", "language_model"}


def default_device(model: Any, options: Any) -> None:
    """Sets the option `device` to the GPU that the model is on, unless it is given."""
    device: Any = getattr(model, "device", None)
    if getattr(device, "type", None) == "cuda":
        options.setdefault("device", f"cuda:{device.index or 0}")


def transducer_options(
    options: Mapping[str, Any], transducer: Mapping[str, Any] | None, hint: str = ""
) -> dict[str, Any]:
    """The options of a transducer's decoder; ValueError if any of `ctc_decoder` are among those that were given."""
    given = {
        name: value for name, value in options.items() if name != "cache" and not (name in OF_GRAPHS and value is None)
    }
    if wrong := sorted(given.keys() - SHARED):
        raise ValueError(
            f"{', '.join(wrong)}: for CTC models; options of transducers are transducer={{...}}, such as "
            f"ngram_lm_model and confidence{hint}"
        )
    return given | dict(transducer or {})


def refuse_transducer(transducer: Mapping[str, Any] | None) -> None:
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
