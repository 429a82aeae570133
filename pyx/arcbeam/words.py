"""Words of a hypothesis with their times."""

from __future__ import annotations

import math
from typing import NamedTuple


class Word(NamedTuple):
    """One word of a hypothesis.

    Attributes
    ----------
    word : str
    start_frame, end_frame : int
        Frames ``[start_frame, end_frame)`` of the word's tokens.
    start, end : float or None
        The same in seconds; None if the decoder was given no ``frame_shift``.
    """

    word: str
    start_frame: int
    end_frame: int
    start: float | None
    end: float | None


def finite(value: float) -> float | None:
    """The number, or None if JSON cannot express it."""
    return float(value) if math.isfinite(value) else None
