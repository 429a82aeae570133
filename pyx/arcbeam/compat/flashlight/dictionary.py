"""Dictionaries: entries and their indices."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from arcbeam.core.checks import as_texts
from arcbeam.core.errors import FormatError
from arcbeam.files.lines import read_lines

UNKNOWN = "<unk>"


class Dictionary:
    """Entries by index, and indices by entry.

    Parameters
    ----------
    entries : path or sequence of str, optional
        A path is that of a file with an index a line; several entries on a line have the same index.

    Raises
    ------
    ValueError
        An entry occurs twice.
    OSError, FormatError
        The file cannot be read, or is not UTF-8.
    """

    def __init__(self, entries: str | os.PathLike[str] | Sequence[str] = ()) -> None:
        self._indices: dict[str, int] = {}
        self._entries: dict[int, str] = {}
        self._default: int | None = None
        if isinstance(entries, (str, os.PathLike)):
            for _, line in read_lines(entries):
                index = self.index_size()
                for entry in line.split():
                    self.add_entry(entry, index)
        else:
            for entry in as_texts("entries", entries, "entry"):
                self.add_entry(entry)

    def add_entry(self, entry: str, idx: int = -1) -> None:
        """Adds an entry with an index, by default the next one; ValueError if the entry is there."""
        if entry in self._indices:
            raise ValueError(f"entry: expected a new one, got {entry!r}, which has the index {self._indices[entry]}")
        index = self.index_size() if idx < 0 else int(idx)
        self._indices[entry] = index
        self._entries.setdefault(index, entry)

    def get_entry(self, idx: int) -> str:
        """The first entry of an index; ValueError if there is none."""
        if idx not in self._entries:
            raise ValueError(f"idx: expected one of the {self.index_size()} indices, got {idx!r}")
        return self._entries[idx]

    def get_index(self, entry: str) -> int:
        """The index of an entry, or the default index; ValueError if there is neither."""
        index = self._indices.get(entry, self._default)
        if index is None:
            raise ValueError(f"entry: expected one of the {self.entry_size()} entries, got {entry!r}")
        return index

    def set_default_index(self, idx: int) -> None:
        """Sets the index of entries that are not there."""
        self._default = int(idx)

    def contains(self, entry: str) -> bool:
        """Whether the entry is there."""
        return entry in self._indices

    def entry_size(self) -> int:
        """The number of entries."""
        return len(self._indices)

    def index_size(self) -> int:
        """The number of indices."""
        return len(self._entries)

    def is_contiguous(self) -> bool:
        """Whether the indices are those from 0 on, without gaps."""
        return all(index in self._entries for index in range(len(self._entries)))

    def map_entries_to_indices(self, entries: Iterable[str]) -> list[int]:
        """`get_index` of each."""
        return [self.get_index(entry) for entry in entries]

    def map_indices_to_entries(self, indices: Iterable[int]) -> list[str]:
        """`get_entry` of each."""
        return [self.get_entry(index) for index in indices]


def load_words(filename: str | os.PathLike[str], max_words: int = -1) -> dict[str, list[list[str]]]:
    """The spellings of the words of a lexicon, and ``<unk>`` without one.

    Parameters
    ----------
    filename : path
        Lines of a word and its tokens.
    max_words : int
        Words that are read; -1 for all.

    Raises
    ------
    FormatError
        A line without tokens.
    """
    words: dict[str, list[list[str]]] = {}
    for number, line in read_lines(filename):
        word, *spelling = line.split() or [""]
        if not word:
            continue
        if not spelling:
            raise FormatError(
                f"{os.fspath(filename)}, line {number}: expected a word and its tokens, got {line[:60]!r}"
            )
        if word not in words and max_words != -1 and len(words) >= max_words:
            break
        words.setdefault(word, []).append(spelling)
    words.setdefault(UNKNOWN, [])
    return words


def create_word_dict(lexicon: Mapping[str, object]) -> Dictionary:
    """A dictionary of the words of a lexicon, in its order; other words have the index of ``<unk>``.

    Raises
    ------
    ValueError
        The lexicon has no ``<unk>``.
    """
    words = Dictionary(list(lexicon))
    if not words.contains(UNKNOWN):
        got = f"{words.entry_size()} other words"
        raise ValueError(f"lexicon: expected the word {UNKNOWN}, which load_words adds, got {got}")
    words.set_default_index(words.get_index(UNKNOWN))
    return words
