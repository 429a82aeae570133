"""Files of phrases for boosting: a phrase on each line; a tab and its score may follow it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from arcbeam.core.errors import FormatError
from arcbeam.core.show import shortened
from arcbeam.files.lines import read_lines

Key = TypeVar("Key")


def read_phrases(
    path: str | os.PathLike[str], score: float, key_of: Callable[[str], Key], check: Callable[[Key, float], float]
) -> dict[Key, float]:
    """Phrases with their scores, by default `score`; `key_of` and `check` normalise them and raise ValueError."""
    phrases: dict[Key, float] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        text, tab, given = line.partition("\t")
        try:
            phrase = key_of(text)
            if phrase in phrases:
                raise ValueError(f"phrase {shortened(phrase)} occurs twice")
            phrases[phrase] = check(phrase, _number(given) if tab else score)
        except ValueError as error:
            raise FormatError(f"{os.fspath(path)}, line {number}: {error}") from None
    return phrases


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a score after the tab, such as 3.5, got {shortened(text)}") from None
