"""Files of phrases for boosting: a phrase on each line; a tab and its score may follow it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from arcbeam.core.errors import FormatError
from arcbeam.core.show import shortened
from arcbeam.core.warn import warn
from arcbeam.files.lines import read_lines

Key = TypeVar("Key")
WORD_START = "\u2581"  # SentencePiece's mark of a word's first piece


def read_phrases(
    path: str | os.PathLike[str], score: float, key_of: Callable[[str], Key], check: Callable[[Key, float], float]
) -> dict[Key, float]:
    """Phrases with their scores, by default `score`; `key_of` and `check` normalise them and raise ValueError."""
    phrases: dict[Key, float] = {}
    spelled: list[str] = []  # lines as a lexicon has them
    for number, line in read_lines(path):
        if not line.strip():
            continue
        if _is_spelling(line):
            spelled.append(line)
        text, tab, given = line.partition("\t")
        try:
            phrase = key_of(text)
            if phrase in phrases:
                raise ValueError(f"phrase {shortened(phrase)} occurs twice")
            phrases[phrase] = check(phrase, _number(given) if tab else score)
        except ValueError as error:
            raise FormatError(f"{os.fspath(path)}, line {number}: {error}") from None
    if len(spelled) > len(phrases) // 2:
        line = " ".join(spelled[0].split())
        warn(
            f"{os.fspath(path)}: expected phrases, a line each, got lines such as {shortened(line)}: is it a lexicon? "
            "Each line is boosted as one phrase; give a list of the words alone, and for new words of a CTC graph the "
            "lexicon as pronunciations= (--boost-lexicon)"
        )
    return phrases


def _is_spelling(line: str) -> bool:
    """Whether the words of a line after the first are the letters or pieces that the first is made of."""
    word, *pieces = line.split()
    return len(pieces) > 1 and "".join(pieces).replace(WORD_START, "") == word


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        point = " (a point before its decimals, no comma)" if "," in text else ""
        raise ValueError(f"expected a score after the tab, such as 3.5, got {shortened(text)}{point}") from None
