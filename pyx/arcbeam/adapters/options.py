"""What the doors for models of other libraries share: options of two kinds of decoders, and the device of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHARED = {"device", "threads", "frame_shift"}  # options of decoders of both kinds


def default_device(model: Any, options: Any) -> None:
    """Sets the option `device` to the GPU that the model is on, unless it is given."""
    device: Any = getattr(model, "device", None)
    if getattr(device, "type", None) == "cuda":
        options.setdefault("device", f"cuda:{device.index or 0}")


def of_transducer(
    of_ctc: Mapping[str, Any], options: Mapping[str, Any], transducer: Mapping[str, Any] | None, hint: str = ""
) -> dict[str, Any]:
    """The options of a transducer's decoder; ValueError for those of a CTC model."""
    given = {**options} | {name: value for name, value in of_ctc.items() if value is not None}
    if wrong := sorted(given.keys() - SHARED):
        raise ValueError(
            f"{', '.join(wrong)}: for CTC models; options of transducers are transducer={{...}}, such as "
            f"ngram_lm_model and confidence{hint}"
        )
    return given | dict(transducer or {})


def refuse_transducer(transducer: Mapping[str, Any] | None) -> None:
    """ValueError if a CTC model gets options of a transducer."""
    if transducer is not None:
        raise ValueError(f"transducer: expected None for a CTC model, got {transducer!r}")
