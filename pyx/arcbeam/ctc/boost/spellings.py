"""How words that a graph lacks are spelled in its tokens: as a user gives it, in characters, or in pieces."""

from __future__ import annotations

import itertools
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from arcbeam.core.checks import check_count, is_number
from arcbeam.core.errors import FormatError
from arcbeam.core.show import few, shortened
from arcbeam.core.sizes import as_bytes
from arcbeam.core.warn import warn
from arcbeam.files.lines import read_lines
from arcbeam.graph._new_words import Pieces, SpelledWords
from arcbeam.graph.new_words import Place, too_large

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph

Pronounced: TypeAlias = Mapping[str, str | Sequence[str]]
Columns: TypeAlias = tuple[int, ...]

LONGEST_WORD = 1000  # characters
CHECKED_SPELLINGS = 1000  # of a file, at most, to find out whether it is one of spellings
MOST_SEGMENTATIONS = 64
MOST_BYTES = "1GiB"  # of new words, by default

_tables: WeakKeyDictionary[Graph, Pieces] = WeakKeyDictionary()


class Spellings:
    """The spellings of new words, given and in pieces; TypeError, ValueError or FormatError if given ones are wrong."""

    def __init__(
        self, given: Pronounced | str | os.PathLike[str] | None, segmentations: int, max_bytes: int | str
    ) -> None:
        check_count("segmentations", segmentations, MOST_SEGMENTATIONS + 1, or_none="")
        self.max_bytes = as_bytes("max_bytes", max_bytes)
        self._most = segmentations
        self._file = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
        self._given = _checked(given or {}) if self._file is None else _read(self._file)

    def __contains__(self, word: str) -> bool:
        return word in self._given

    def warn_of_unused(self, words: set[str]) -> None:
        """Warns of spellings of words that a list has in another case alone, or of a mapping without any of its words.

        A file may be the lexicon of many lists, of which one needs nothing.
        """
        unused = self._given.keys() - words
        folded = {word.casefold(): word for word in words - self._given.keys()}
        cased = sorted(word for word in unused if word.casefold() in folded)
        if cased:
            why = f", and the list has {folded[cased[0].casefold()]!r}: a spelling is that of a word in the same case"
            warn(f"{self._name}: spells {few(cased)}{why}")
        elif self._file is None and words and len(unused) == len(self._given) > 0:
            warn(f"pronunciations: spells {few(sorted(unused))}, and the list has none of these words")

    @property
    def _name(self) -> str:
        """What was given, for messages."""
        return "pronunciations" if self._file is None else f"{self._file}: pronunciations"

    def check(self, graph: Graph) -> None:
        """FormatError for a file most of whose lines have not a single token of this graph: it is another file.

        A lexicon may have words that this graph cannot spell, which are left out of lists one by one; but a list of
        phrases with scores, a table of symbols or the lexicon of another model would be left out as a whole.
        """
        if self._file is None or graph.tokens is None:
            return
        every = ((word, tokens) for word, spellings in self._given.items() for tokens in spellings)
        lines = list(itertools.islice(every, CHECKED_SPELLINGS))
        wrong = [(word, tokens) for word, tokens in lines if not _has_token(tokens, graph)]
        if 2 * len(wrong) > len(lines):
            word, tokens = wrong[0]
            raise FormatError(
                f"{self._file}: expected a lexicon, lines 'word token token ...' in the graph's tokens"
                f"{example(graph)}, got {_kind([tokens for _, tokens in wrong], graph)}, in which {shortened(word)} is "
                f"followed by {shortened(' '.join(tokens))}"
            )

    def of(self, words: Iterable[str], graph: Graph, name: str = "") -> tuple[dict[str, Place], dict[str, str]]:
        """The spellings of words in columns, and the reasons of words without one; CapacityError above `max_bytes`."""
        words = sorted(set(words))
        if graph.tokens is None:
            return {}, dict.fromkeys(words, "the graph has no tokens; give tokens= to Graph.load")
        given: dict[str, list[Columns]] = {}
        cut: list[str] = []
        reasons: dict[str, str] = {}
        for word in words:
            if len(word) > LONGEST_WORD:
                reasons[word] = f"it has {len(word):,} characters, more than {LONGEST_WORD:,}"
            elif word not in self._given:
                cut.append(word)
            else:
                try:
                    given[word] = list(dict.fromkeys(_by_name(tokens, graph) for tokens in self._given[word]))
                except _Unspelled as error:
                    reasons[word] = str(error)
        mark = graph.separator if graph.separator_column is None else None
        spelled, stuck = _pieces(graph).spelled([(mark or "") + word for word in cut], self._most, self.max_bytes)
        if spelled is None:
            raise too_large("more bytes for their spellings alone", self.max_bytes, name)
        if stuck:
            columns = pieces_of(graph)
            reasons |= {cut[at]: _without_token(left, columns, mark) for at, left in stuck.items()}
        listed = SpelledWords.from_lists(list(given.values()))
        found = {word: (listed, at) for at, word in enumerate(given)}
        found |= {word: (spelled, at) for at, word in enumerate(cut) if at not in stuck}
        return found, dict(sorted(reasons.items()))


class _Unspelled(Exception):
    """A word has no spelling: the message says why."""


def _without_token(left: str, pieces: Container[str], mark: str | None) -> str:
    """The reason why a word has no spelling, of which this is what no way gets beyond."""
    letter = left[: 2 if left[0] == mark else 1]  # with the mark of a word's start before it
    cased = next((c for c in (letter.lower(), letter.upper()) if c != letter and c in pieces), None)
    return f"no token for {letter!r}" + (f", but one for {cased!r}" if cased else "")


def _pieces(graph: Graph) -> Pieces:
    found = _tables.get(graph)
    if found is None:
        found = _tables[graph] = Pieces(pieces_of(graph))
    return found


def pieces_of(graph: Graph) -> dict[str, int]:
    """The columns of tokens that can be parts of words."""
    columns: dict[str, int] = {}
    for column, token in enumerate(() if graph.tokens is None else graph.tokens.tokens):
        if column not in (graph.blank, graph.separator_column) and not _is_special(token):
            columns.setdefault(token, column)
    return columns


def example(graph: Graph) -> str:
    """Some tokens of the graph, as a spelling has them."""
    if graph.tokens is None:
        return ""
    tokens = itertools.islice((token for token in pieces_of(graph) if token != graph.separator), 3)
    return f", such as {' '.join(tokens)!r}"


def _has_token(fields: Iterable[str], graph: Graph) -> bool:
    """Whether one of these is a token of the graph."""
    return graph.tokens is not None and any(field in graph.tokens for field in fields)


def _kind(lines: Sequence[Sequence[str]], graph: Graph) -> str:
    """What a file may be that has these fields after the first of each line, which are no spellings."""
    if all(len(fields) == 1 and fields[0].isdecimal() for fields in lines):
        return "what looks like a symbol table, or words with scores"
    if all(is_number(fields[-1]) for fields in lines):
        return "what looks like a list of phrases with scores, which Boost.read and --boost take"
    if any(_has_token(map(str.swapcase, fields), graph) for fields in lines):
        return "one whose tokens are written in the other case"
    return "another file, or the lexicon of another model"


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
            raise FormatError(
                f"{path}, line {number}: expected tokens after the word {word!r}, got none; a lexicon has lines 'word "
                "token token ...'"
            )
        found.setdefault(word, []).append(tokens)
    return found
