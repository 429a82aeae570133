"""The words of a file: of a list, or of the unigrams of an ARPA model."""

from __future__ import annotations

import os

from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import ARPA, kind_of, other_kind
from arcbeam.recipe import files

RESERVED = ("<eps>", "<s>", "</s>", "#0")


def read_words(path: str | os.PathLike[str], max_bytes: int | str | None = None) -> list[str]:
    """Words of a file: one a line, or Kaldi's ``word id``; reserved symbols and duplicates are left out."""
    words: dict[str, None] = {}
    for number, line in files.lines(path, max_bytes):
        parts = files.fields(line)
        if not parts:
            continue
        if parts == [ARPA.decode()]:
            raise FormatError(f"{path}: expected a word a line, got {kind_of(ARPA)}")
        if len(parts) > 2 or (len(parts) == 2 and not (parts[1].isascii() and parts[1].isdigit())):
            raise FormatError(f"{path}, line {number}: expected a word or 'word id', got {line[:60]!r}")
        words[parts[0]] = None
    return [w for w in words if w not in RESERVED]


def words_of_arpa(path: str | os.PathLike[str], max_bytes: int | str | None = None) -> list[str]:
    """The words for which an ARPA model has unigrams, without <s>, </s> and <unk>."""
    words: list[str] = []
    inside = False
    number = 0
    for number, line in files.lines(path, max_bytes):
        if inside and line.startswith("\\"):
            if not words:
                raise FormatError(f"{path}: expected an ARPA model with unigrams of words, got none")
            return words
        parts = files.fields(line)
        if inside and parts:
            if len(parts) not in (2, 3):
                raise FormatError(f"{path}, line {number}: expected a unigram, got {line[:60]!r}")
            if parts[1] not in RESERVED and parts[1].lower() != "<unk>":
                words.append(parts[1])
        inside |= line.strip() == "\\1-grams:"
    got = "an empty file" if number == 0 else other_kind(path, "ARPA") or "a file without \\1-grams:"
    if inside:
        got = f"one that ends among its unigrams, at line {number}: is the file complete?"
    raise FormatError(f"{path}: expected an ARPA model with unigrams, got {got}")
