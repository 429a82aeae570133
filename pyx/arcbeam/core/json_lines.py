"""Results as lines of JSON, as the commands write them and other programs read them."""

import json
from collections.abc import Mapping
from typing import Any

LEFT_OUT = ("error", "tokens", "word_ids", "arcs", "frame_confidence")
"""Attributes of a hypothesis of CTC that JSON has not; an utterance with an error has no line."""


def json_line(fields: Mapping[str, Any]) -> str:
    """An object on a line; its floats have six digits, so that multiples of a frame shift lack the noise of doubles."""
    return json.dumps(_rounded(dict(fields)), ensure_ascii=False, allow_nan=False) + "\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return round(value, 6) if isinstance(value, float) else value


def ctc_fields(hypothesis: Any) -> dict[str, Any]:
    """What JSON has of a hypothesis of CTC."""
    return {name: value for name, value in hypothesis.to_dict().items() if name not in LEFT_OUT}
