"""The phrases of a boost list and their scores, checked and brought into one form."""

from __future__ import annotations

from typing import Any

from arcbeam.checks import as_float, check_text
from arcbeam.ctc._boost import are_plain
from arcbeam.show import shortened

UNITS = 1024  # scores are rounded to 1/1024
LARGEST_SCORE = 1000.0


def normalised(names: list[Any]) -> list[str]:
    """The phrases with one space between words."""
    if are_plain(names):  # as nearly all lists are, which may be long
        return names
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
