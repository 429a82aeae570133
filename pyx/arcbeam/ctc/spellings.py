"""How words that a graph lacks are spelled in its tokens: as a user gives it, in characters, or in pieces."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from arcbeam.checks import check_count
from arcbeam.errors import FormatError
from arcbeam.files.lines import read_lines
from arcbeam.pieces import stuck_at

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph

Pronounced: TypeAlias = Mapping[str, str | Sequence[str]]
Columns: TypeAlias = tuple[int, ...]

LONGEST_WORD = 1000  # characters
MOST_SEGMENTATIONS = 64


class Spellings:
    """The spellings of new words.

    Parameters
    ----------
    given : mapping, path or None
        As ``pronunciations`` of `arcbeam.Boost`.
    segmentations : int
        The most spellings in pieces of a word that is not given.

    Raises
    ------
    TypeError, ValueError
        Something else, or an empty spelling; the message names the word.
    FormatError
        A line of a file without tokens.
    """

    def __init__(self, given: Pronounced | str | os.PathLike[str] | None, segmentations: int) -> None:
        check_count("segmentations", segmentations, MOST_SEGMENTATIONS + 1, or_none="")
        self._most = segmentations
        self._given = _read(given) if isinstance(given, (str, os.PathLike)) else _checked(given or {})

    def of(self, words: Iterable[str], graph: Graph) -> tuple[dict[str, list[Columns]], dict[str, str]]:
        """The spellings of words in the columns of a graph; and of the words that have none, the reason."""
        words = sorted(set(words))
        if graph.tokens is None:
            return {}, dict.fromkeys(words, "the graph does not know its tokens; give tokens= to Graph.load")
        pieces = pieces_of(graph)
        found: dict[str, list[Columns]] = {}
        reasons: dict[str, str] = {}
        for word in words:
            try:
                found[word] = self._of(word, pieces, graph)
            except _Unspelled as error:
                reasons[word] = str(error)
        return found, reasons

    def _of(self, word: str, pieces: dict[str, int], graph: Graph) -> list[Columns]:
        if len(word) > LONGEST_WORD:
            raise _Unspelled(f"it has {len(word):,} characters, more than {LONGEST_WORD:,}")
        if word in self._given:
            return list(dict.fromkeys(_by_name(tokens, graph) for tokens in self._given[word]))
        mark = graph.separator if graph.separator_column is None else None
        return _by_pieces((mark or "") + word, pieces, self._most, mark)


class _Unspelled(Exception):
    """A word has no spelling: the message says why."""


def _by_pieces(text: str, pieces: dict[str, int], most: int, mark: str | None = None) -> list[Columns]:
    """The ways to cut a text into tokens, those of the fewest tokens first, then by their columns.

    Ways from a place on share what they have in common: each is the number of its tokens, the column of the first, and
    the number of the way that goes on behind it, which is at the place `end`.
    """
    longest = max(map(len, pieces), default=0)
    ways: list[list[tuple[int, int, int, int]]] = [[] for _ in text] + [[(0, 0, 0, 0)]]
    for begin in reversed(range(len(text))):
        found = (
            (1 + way[0], pieces[text[begin:end]], rank, end)
            for end in range(begin + 1, min(begin + longest, len(text)) + 1)
            if text[begin:end] in pieces
            for rank, way in enumerate(ways[end])
        )
        ways[begin] = heapq.nsmallest(most, found)
    if not ways[0]:
        letter = stuck_at(text, pieces, longest, mark)
        cased = next((c for c in (letter.lower(), letter.upper()) if c != letter and c in pieces), None)
        raise _Unspelled(f"no token for {letter!r}" + (f", but one for {cased!r}" if cased else ""))
    spelled = []
    for way in ways[0]:
        columns = []
        while way[0]:
            _, column, rank, end = way
            columns.append(column)
            way = ways[end][rank]
        spelled.append(tuple(columns))
    return spelled


def pieces_of(graph: Graph) -> dict[str, int]:
    """The columns of tokens that can be parts of words."""
    columns: dict[str, int] = {}
    for column, token in enumerate(() if graph.tokens is None else graph.tokens.tokens):
        if column not in (graph.blank, graph.separator_column) and not _is_special(token):
            columns.setdefault(token, column)
    return columns


def _is_special(token: str) -> bool:
    return len(token) > 2 and token[0] + token[-1] in ("<>", "[]")


def _by_name(tokens: Sequence[str], graph: Graph) -> Columns:
    assert graph.tokens is not None
    found = []
    for token in tokens:
        column = graph.tokens.column(token) if token in graph.tokens else None
        if column is None or column == graph.blank:
            got = "the blank" if column is not None else f"{token!r}, which is no token"
            raise _Unspelled(f"its spelling has {got}")
        found.append(column)
    return tuple(found)


def _checked(given: Any) -> dict[str, list[list[str]]]:
    if not isinstance(given, Mapping):
        raise TypeError(
            f"pronunciations: expected a mapping of words to spellings, or a path, got {type(given).__name__}"
        )
    checked = {}
    for word, spellings in given.items():
        if not isinstance(word, str) or len(word.split()) != 1:
            raise ValueError(f"pronunciations: expected words without spaces, got {word!r}")
        listed = [spellings] if isinstance(spellings, str) else spellings
        if not isinstance(listed, Sequence) or not all(isinstance(one, str) for one in listed):
            raise TypeError(
                f"pronunciations: expected a str of tokens with spaces between them for {word!r}, or a list of such, "
                f"got {spellings!r:.80}"
            )
        checked[word] = [one.split() for one in listed]
        if not checked[word] or not all(checked[word]):
            raise ValueError(f"pronunciations: expected at least one token in each spelling of {word!r}, got none")
    return checked


def _read(path: str | os.PathLike[str]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for number, line in read_lines(path):
        word, *tokens = line.split() or [""]
        if not word:
            continue
        if not tokens:
            raise FormatError(f"{path}, line {number}: expected tokens after the word {word!r}, got none")
        found.setdefault(word, []).append(tokens)
    return found
