"""How words that a graph lacks are spelled in its tokens: as a user gives it, in characters, or in pieces."""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from arcbeam.checks import check_count
from arcbeam.errors import FormatError
from arcbeam.graph.symbols import read_lines

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.symbols import TokenTable

Pronounced: TypeAlias = Mapping[str, str | Sequence[str]]
Columns: TypeAlias = tuple[int, ...]


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
        check_count("segmentations", segmentations, or_none="")
        self._most = segmentations
        self._given = _read(given) if isinstance(given, (str, os.PathLike)) else _checked(given or {})

    def of(self, words: Iterable[str], graph: Graph) -> dict[str, list[Columns]]:
        """The spellings of words in the columns of a graph; ValueError if one has none."""
        words = sorted(set(words))
        if graph.tokens is None:
            raise ValueError(
                f"boost: the new word {words[0]!r} cannot be spelled, because the graph does not know its tokens; give "
                "tokens= to Graph.load"
            )
        pieces = _pieces_of(graph.tokens, graph)
        return {
            word: _unique(_by_name(word, tokens, graph) for tokens in self._given[word])
            if word in self._given
            else self._by_pieces(word, pieces, graph)
            for word in words
        }

    def _by_pieces(self, word: str, pieces: dict[str, int], graph: Graph) -> list[Columns]:
        """The ways to cut a word into tokens, those of the fewest tokens first, then by their columns."""
        text, marks = word, graph.separator if graph.separator_column is None else None
        if marks is not None:  # what the first piece of a word begins with
            text = marks + word
        longest = max(map(len, pieces), default=0)
        ways: list[list[Columns]] = [[()]]
        for end in range(1, len(text) + 1):
            found = (
                (*way, pieces[text[begin:end]])
                for begin in range(max(0, end - longest), end)
                if text[begin:end] in pieces
                for way in ways[begin]
            )
            ways.append(heapq.nsmallest(self._most, found, key=lambda way: (len(way), way)))
        if ways[-1]:
            return ways[-1]
        reached = max(at for at, way in enumerate(ways) if way)
        stuck = text[reached : reached + 1]
        cased = [c for c in (stuck.lower(), stuck.upper()) if c != stuck and c in pieces]
        hint = f"; the tokens have {cased[0]!r}" if cased else ""
        example = " ".join(itertools.islice((t for t in pieces if t != marks), 3))
        raise ValueError(
            f"boost: the new word {word!r} cannot be spelled: expected characters that the graph's tokens have, got "
            f"{stuck!r}{hint}; give its spelling in tokens, such as pronunciations={{{word!r}: {example!r}}}, or leave "
            "the word out"
        )


def _pieces_of(table: TokenTable, graph: Graph) -> dict[str, int]:
    """The columns of tokens that can be parts of words."""
    columns: dict[str, int] = {}
    for column, token in enumerate(table.tokens):
        if column not in (graph.blank, graph.separator_column) and not _is_special(token):
            columns.setdefault(token, column)
    return columns


def _is_special(token: str) -> bool:
    return len(token) > 2 and token[0] + token[-1] in ("<>", "[]")


def _by_name(word: str, tokens: Sequence[str], graph: Graph) -> Columns:
    assert graph.tokens is not None
    found = []
    for token in tokens:
        column = graph.tokens.column(token) if token in graph.tokens else None
        if column is None or column == graph.blank:
            got = "the blank" if column is not None else f"{token!r}, which is none"
            raise ValueError(f"pronunciations: expected tokens of the graph in the spelling of {word!r}, got {got}")
        found.append(column)
    return tuple(found)


def _unique(spellings: Iterable[Columns]) -> list[Columns]:
    return list(dict.fromkeys(spellings))


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
