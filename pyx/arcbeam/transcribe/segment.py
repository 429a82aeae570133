"""A sentence of a recording, with its times and words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from arcbeam.core.calls import lists_fields
from arcbeam.core.show import Formatted
from arcbeam.words import Word, as_dicts


@lists_fields
@dataclass(frozen=True)
class Segment(Formatted):
    """A sentence of a recording: the words between two pauses.

    Attributes
    ----------
    start, end : float
        Seconds from the beginning of the recording: those of the first word's start and of the last word's end.
    text : str
    words : tuple of Word
        With times in seconds, and with confidences if these were requested.
    complete : bool
        False if the search died before the last frame of the sentence, whose last words are then missing.
    """

    start: float
    end: float
    text: str
    words: tuple[Word, ...]
    complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON."""
        return {
            "start": self.start,
            "end": self.end,
            "text": self.text,
            "complete": self.complete,
            "words": as_dicts([*self.words]),
        }

    def __str__(self) -> str:
        return self.text


def segment_of(words: Iterable[Word], text: str, complete: bool) -> Segment:
    """A sentence of words with times in seconds."""
    found = tuple(words)
    starts, ends = [word.start or 0.0 for word in found], [word.end or 0.0 for word in found]
    return Segment(min(starts), max(ends), text, found, complete)
