"""The phrases of a boost list and their scores, checked and brought into one form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from arcbeam.core.checks import as_float, check_text
from arcbeam.core.show import shortened
from arcbeam.ctc.boost._boost import are_plain, rounded

UNITS = 1024  # scores are rounded to 1/1024
LARGEST_SCORE = 1000.0


class Phrases(NamedTuple):
    """The phrases of a list and their scores, as they are compiled."""

    lines: str  # one space between words, a line feed between phrases
    size: int
    scores: float | list[float]  # of all phrases, or of each; multiples of 1/1024

    def as_dict(self) -> dict[str, float]:
        """The score of each phrase."""
        names = self.lines.split("\n") if self.size else []
        if isinstance(self.scores, float):
            return dict.fromkeys(names, self.scores)
        return dict(zip(names, self.scores, strict=True))


def checked(names: Sequence[Any], scores: list[Any] | None, score: Any) -> Phrases:
    """Phrases with a score for each, or with one for all; errors name the phrase."""
    lines, count = _as_lines(names)
    if scores is None:
        return Phrases(lines, count, checked_score(None, score))
    made = rounded(scores, LARGEST_SCORE)
    if made is None:  # not all are floats in range
        made = list(map(checked_score, lines.split("\n"), scores))
    return Phrases(lines, count, made)


def _as_lines(names: Sequence[Any]) -> tuple[str, int]:
    """The phrases with one space between words, each in a line, all different; and how many there are."""
    count = len(names)
    try:
        lines = "\n".join(names)
        if are_plain(lines, count):  # as nearly all lists are, which may be long
            return lines, count
    except TypeError:
        pass  # not all are str: what follows says which is not
    normal = normalised(names)
    refuse_repeated(normal)
    return "\n".join(normal), len(normal)


def normalised(names: Sequence[Any]) -> list[str]:
    """The phrases with one space between words."""
    for at, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"phrases: expected str, got {type(name).__name__} for phrase {at}")
        check_text("phrases", name)
    normal = [" ".join(name.split()) for name in names]
    if "" in normal:
        raise ValueError(f"phrases: expected phrases with at least one word, got {shortened(names[normal.index('')])}")
    return normal


def refuse_repeated(normal: list[str]) -> None:
    """ValueError that names a phrase that occurs twice."""
    seen: set[str] = set()
    for phrase in normal:
        if phrase in seen:
            raise ValueError(f"phrases: {shortened(phrase)} occurs twice")
        seen.add(phrase)


def checked_score(phrase: str | None, score: Any) -> float:
    """A score, rounded; errors name its phrase, unless that is None."""
    if type(score) is not float or not abs(score) <= LARGEST_SCORE:  # NaN compares false
        name = "score" if phrase is None else f"score of {shortened(phrase)}"
        score = as_float(name, score, "that is a natural log")
        if not abs(score) <= LARGEST_SCORE:
            raise ValueError(
                f"{name}: expected a natural log from -{LARGEST_SCORE:g} to {LARGEST_SCORE:g}, got {score!r}"
            )
    return round(score * UNITS) / UNITS
