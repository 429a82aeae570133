"""Lexicons: the tokens that spell each word, from a file, by characters, or by a SentencePiece model."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from arcbeam.core.calls import lists_fields, lists_options
from arcbeam.core.checks import is_number
from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.core.show import few, shown_as
from arcbeam.files.kinds import ARPA, kind_of
from arcbeam.files.reading import reading
from arcbeam.files.sentencepiece_file import load_model
from arcbeam.recipe import files
from arcbeam.recipe.separators import (
    WORD_START,
    check_is_not_blank,
    column_finder,
    column_of_separator,
    find_separator,
    warn_of_another_name,
)
from arcbeam.recipe.word_lists import RESERVED, read_words

if TYPE_CHECKING:
    import numpy.typing as npt

    from arcbeam.graph.token_table import TokenTable

MOST_EXAMPLES = 5  # words that a message names of those that are left out


@lists_fields
@dataclass(frozen=True, repr=False)
class Lexicon:
    """Words and their pronunciations, as sequences of tokens.

    Attributes
    ----------
    words : tuple of str
        Word i has the label i + 1 in the graph.
    word_index : uint32 [pronunciations]
        The word of each pronunciation, as a position in `words`; ascending.
    offsets : uint32 [pronunciations + 1]
        Where each pronunciation begins in `columns`; the last offset is the end of all.
    columns : uint16 [offsets[-1]]
        Columns of the log-probs.
    costs : float32 [pronunciations]
        Negative natural log of the pronunciation's probability.
    separator : str or None
        The token between words, or the mark that a word's first piece begins with.
    separator_column : int or None
        The column of the separator, if it is a token of its own.
    skipped : dict of str to int
        The number of words that could not be used, by reason.
    examples : dict of str to tuple of str
        Up to five of these words, by reason.
    """

    words: tuple[str, ...]
    word_index: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.uint32]
    columns: npt.NDArray[np.uint16]
    costs: npt.NDArray[np.float32]
    separator: str | None = None
    separator_column: int | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    examples: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        sizes = [f"{self.num_pronunciations:,} pronunciations"]
        sizes += [f"{count:,} {reason} skipped" for reason, count in self.skipped.items()]
        separator = "no separator" if self.separator is None else f"separator {self.separator!r}"
        return shown_as(f"Lexicon of {len(self):,} words", *sizes, separator)

    def tell_skipped(self) -> str:
        """What could not be used, for messages: the number, the reason, and up to five of the words."""
        return ", ".join(
            f"{count:,} {reason}" + (f" ({few(self.examples[reason], count)})" if reason in self.examples else "")
            for reason, count in self.skipped.items()
        )

    @property
    def repeats_words(self) -> bool:
        """Whether words of one token may follow each other with no token between: one that lasts may be many."""
        return self.separator_column is None and bool((np.diff(self.offsets) == 1).any())

    @property
    def num_pronunciations(self) -> int:
        """Pronunciations of all words."""
        return len(self.word_index)

    def pronunciations(self) -> Iterator[tuple[str, tuple[int, ...], float]]:
        """Yield (word, columns, cost) one by one; meant for reading, not for speed."""
        for i, word in enumerate(self.word_index):
            tokens = self.columns[self.offsets[i] : self.offsets[i + 1]]
            yield self.words[word], tuple(int(c) for c in tokens), float(self.costs[i])

    @classmethod
    @lists_options()
    def from_file(
        cls,
        path: str | os.PathLike[str],
        tokens: TokenTable,
        *,
        probabilities: bool | None = None,
        separator: str | None = None,
        max_bytes: int | str | None = None,
    ) -> Lexicon:
        """Read lines ``word token token ...`` or ``word probability token token ...``.

        Parameters
        ----------
        path : path
            Plain, .gz, .xz or .bz2, UTF-8. A word may have several lines, one for each pronunciation. Empty lines are
            skipped.
        tokens : TokenTable
            The model's tokens.
        probabilities : bool, optional
            Whether the second field is a probability, above 0 and at most 1 (as in Kaldi's lexiconp.txt). None: it is
            one if the second field of every line is such a number and none of these fields is a token.
        separator : str, optional
            A token that is written between words and is not part of the pronunciations.
        max_bytes : int, str or None
            Bytes, or a size such as ``"2GiB"``, that the text of a packed file may have. None: 20 times the size of
            the file, but at least 32 MiB.

        Raises
        ------
        FormatError
            A word without tokens, an unknown token, a reserved word, or a bad probability; the message names the line.
            Or it is unclear whether there are probabilities.
        """
        if probabilities is None:
            probabilities = _has_probabilities(path, tokens, max_bytes)
        column = column_finder(tokens)
        blank = tokens.blank
        builder = _Builder()
        for number, parts in _entries(path, max_bytes):
            where = f"{path}, line {number}"
            word, rest, cost = parts[0], parts[1:], 0.0
            if word in RESERVED:
                table = "; is this a table of words and their numbers?" if rest == ["0"] else ""
                raise FormatError(f"{where}: expected a word, got {word!r}, which is reserved{table}")
            if probabilities:
                cost = _cost(rest[0] if rest else "", where)
                rest = rest[1:]
            if not rest:
                raise FormatError(f"{where}: expected tokens after the word {word!r}, got none")
            found = [column(token) for token in rest]
            for token, number_of_column in zip(rest, found, strict=True):
                if number_of_column is None:
                    other = token.swapcase()
                    hint = "" if column(other) is None else f"; {other!r} is one: write spellings in the tokens' case"
                    got = f"got {token!r} in the word {word!r}{hint}"
                    raise FormatError(f"{where}: expected tokens of the model, {got}")
                if number_of_column == blank:
                    raise FormatError(f"{where}: expected tokens, got the blank {token!r} in the word {word!r}")
            builder.add(word, [c for c in found if c is not None], cost)
        if not builder.labels:
            raise FormatError(f"{path}: expected lines 'word token token ...', got an empty file")
        separator_column = None
        if separator is not None:
            check_is_not_blank(tokens, separator)
            separator_column = column_of_separator(tokens, separator)
        return builder.finish(separator, separator_column)

    @classmethod
    @lists_options()
    def spell(
        cls,
        words: str | os.PathLike[str] | Iterable[str],
        tokens: TokenTable,
        separator: str | None = "auto",
        *,
        max_bytes: int | str | None = None,
    ) -> Lexicon:
        """Spell words with one token for each character.

        Parameters
        ----------
        words : path or iterable of str
            A file with one word a line, or one of Kaldi's words.txt (its ids are not used); or the words themselves.
            Words with a character that is no token are skipped, and counted in `skipped`.
        tokens : TokenTable
        separator : str, optional
            The token between words. "auto": the one among <space>, " ", |, ... that is a token, if there is one.
        max_bytes : int, str or None
            As in `from_file`, for a file of words.
        """
        _check_tokens(tokens)
        column = column_finder(tokens)
        if separator == "auto":
            separator = find_separator(tokens)
            if separator is None:
                warn_of_another_name(tokens, "separator")
            separator = None if separator is None or column(separator) is None else separator
        elif separator is not None:
            check_is_not_blank(tokens, separator)
        separator_column = None if separator is None else column_of_separator(tokens, separator)

        def spelled(word: str) -> list[int] | None:
            columns = [column(character) for character in word]
            if any(c is None or c in (tokens.blank, separator_column) for c in columns):
                return None
            return [c for c in columns if c is not None]

        reason = "with a character that is no token"
        return _make(_listed(words, max_bytes), spelled, reason, tokens, separator, separator_column)

    @classmethod
    @lists_options()
    def sentencepiece(
        cls,
        words: str | os.PathLike[str] | Iterable[str],
        model: str | os.PathLike[str],
        tokens: TokenTable,
        *,
        max_bytes: int | str | None = None,
    ) -> Lexicon:
        """Cut words into the pieces of a SentencePiece model.

        Parameters
        ----------
        words : path or iterable of str
            As in `spell`.
        model : path
            The SentencePiece ``.model`` file.
        tokens : TokenTable
            The acoustic model's tokens, which are the pieces by name.
        max_bytes : int, str or None
            As in `from_file`, for a file of words.

        Raises
        ------
        MissingDependencyError
            The package sentencepiece is missing.
        FormatError
            The file is no SentencePiece model, or is damaged.
        OSError
            The model cannot be read.
        """
        require("sentencepiece", "a lexicon by a SentencePiece model")
        processor = load_model(model)

        def pieces(word: str) -> list[str]:
            with reading(model, "a SentencePiece model"):
                found: list[str] = processor.EncodeAsPieces(word)
                return found

        return cls.cut(words, pieces, tokens, WORD_START, max_bytes=max_bytes)

    @classmethod
    @lists_options()
    def cut(
        cls,
        words: str | os.PathLike[str] | Iterable[str],
        pieces: Callable[[str], Sequence[str] | None],
        tokens: TokenTable,
        separator: str | None = None,
        *,
        max_bytes: int | str | None = None,
    ) -> Lexicon:
        """Cut words into pieces.

        Parameters
        ----------
        words : path or iterable of str
            As in `spell`. Words with a piece that is no token are skipped, and counted in `skipped`.
        pieces : callable
            Returns the pieces of a word; None, or none, if there are none.
        tokens : TokenTable
        separator : str, optional
            The mark that a word's first piece begins with.
        max_bytes : int, str or None
            As in `from_file`, for a file of words.
        """
        column = column_finder(tokens)

        def columns_of(word: str) -> list[int] | None:
            columns = [column(piece) for piece in pieces(word) or ()]
            if not columns or any(c is None or c == tokens.blank for c in columns):
                return None
            return [c for c in columns if c is not None]

        return _make(_listed(words, max_bytes), columns_of, "with a piece that is no token", tokens, separator, None)


class _Builder:
    """Collects pronunciations, then sorts them by word; of equal ones only the most probable stays."""

    def __init__(self) -> None:
        self.labels: dict[str, int] = {}
        self.entries: list[dict[tuple[int, ...], float]] = []
        self.skipped: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}

    def skip(self, word: str, reason: str) -> None:
        """Counts a word that cannot be used, and keeps the first few."""
        self.skipped[reason] += 1
        if len(named := self.examples.setdefault(reason, [])) < MOST_EXAMPLES and word not in named:
            named.append(word)

    def add(self, word: str, columns: Sequence[int], cost: float = 0.0) -> None:
        label = self.labels.setdefault(word, len(self.labels))
        if label == len(self.entries):
            self.entries.append({})
        key = tuple(columns)
        if key in self.entries[label]:
            self.skip(word, "pronunciations given twice")
        self.entries[label][key] = min(cost, self.entries[label].get(key, math.inf))

    def finish(self, separator: str | None, separator_column: int | None) -> Lexicon:
        sequences = [columns for entry in self.entries for columns in entry]
        word_index = np.repeat(np.arange(len(self.entries), dtype=np.uint32), [len(e) for e in self.entries])
        offsets = np.zeros(len(sequences) + 1, np.uint32)
        np.cumsum([len(s) for s in sequences], out=offsets[1:])
        columns = np.fromiter((c for s in sequences for c in s), np.uint16, int(offsets[-1]))
        costs = np.fromiter((c for e in self.entries for c in e.values()), np.float32, len(sequences))
        return Lexicon(
            words=tuple(self.labels),
            word_index=word_index,
            offsets=offsets,
            columns=columns,
            costs=costs,
            separator=separator,
            separator_column=separator_column,
            skipped=dict(self.skipped),
            examples={reason: tuple(named) for reason, named in self.examples.items()},
        )


def check_lexicon(lexicon: object) -> None:
    """TypeError for what is neither a lexicon, nor its path, nor None."""
    if lexicon is not None and not isinstance(lexicon, (str, os.PathLike, Lexicon)):
        raise TypeError(
            f"lexicon: expected a path, an arcbeam.recipe.lexicon.Lexicon or None, got {type(lexicon).__name__}; "
            "Lexicon.spell(words, tokens) spells words in characters"
        )


def _check_tokens(tokens: object) -> None:
    """TypeError for what is no table of tokens."""
    from arcbeam.graph.token_table import TokenTable

    if not isinstance(tokens, TokenTable):
        raise TypeError(
            f"tokens: expected an arcbeam.TokenTable, got {type(tokens).__name__}; arcbeam.TokenTable.read(path) reads "
            "a file, TokenTable.from_list(tokens) takes a list"
        )


def _listed(words: str | os.PathLike[str] | Iterable[str], max_bytes: int | str | None) -> Iterable[str]:
    return read_words(words, max_bytes) if isinstance(words, str | os.PathLike) else words


def _make(
    words: Iterable[str],
    pronounce: Callable[[str], list[int] | None],
    reason: str,
    tokens: TokenTable,
    separator: str | None,
    separator_column: int | None,
) -> Lexicon:
    builder = _Builder()
    for word in words:
        if word in RESERVED:
            continue
        columns = pronounce(word)
        if columns:
            if word not in builder.labels:
                builder.add(word, columns)
        else:
            builder.skip(word, f"words {reason}")
    count = builder.skipped[f"words {reason}"]
    [lost, *_] = builder.examples.get(f"words {reason}", [""])
    # A few words, such as numbers and marks, have no case, and would be all that is left of a large vocabulary.
    cased = count > len(builder.labels) and any(pronounce(word) for word in (lost.lower(), lost.upper()))
    if cased or not builder.labels:
        if not count:
            raise ValueError("expected words that the tokens can spell, got no words")
        what = f"{count:,} word{'s'[: count != 1]} {reason}, such as {lost!r}"
        listed = ", ".join(repr(token[:40]) for token in tokens.tokens[:5])
        hint = "write the words and the tokens in the same case" if cased else "the file of the tokens has one a line"
        raise ValueError(
            f"expected words that the tokens can spell, got {what}; there {'is' if len(tokens) == 1 else 'are'} "
            f"{len(tokens)} token{'s'[: len(tokens) != 1]} ({listed}{', ...'[: 5 * (len(tokens) > 5)]}); {hint}"
        )
    return builder.finish(separator, separator_column)


def _entries(path: str | os.PathLike[str], max_bytes: int | str | None) -> Iterator[tuple[int, list[str]]]:
    """Numbers and fields of the lines that are not empty."""
    for number, line in files.lines(path, max_bytes):
        if parts := files.fields(line):
            if parts == ["\\data\\"]:
                raise FormatError(f"{path}: expected lines 'word token token ...', got {kind_of(ARPA)}")
            yield number, parts


def _has_probabilities(path: str | os.PathLike[str], tokens: TokenTable, max_bytes: int | str | None) -> bool:
    names = set(tokens.tokens)
    may_be_tokens = False
    bad: tuple[int, str] | None = None  # the first number that is no probability
    for number, parts in _entries(path, max_bytes):
        second = parts[1] if len(parts) > 1 else ""
        if not is_number(second):
            return False
        if bad is None and not _is_probability(second):
            bad = number, second
        may_be_tokens |= second in names
    if not may_be_tokens:
        if bad is not None:
            _cost(bad[1], f"{path}, line {bad[0]}")  # which raises the error
        return True
    if bad is not None:
        return False
    raise FormatError(
        f"{path}: cannot tell whether the second field is a probability or a token: every one is a number above 0 and "
        "at most 1, and some are tokens too. Say which with probabilities=True or probabilities=False."
    )


def _is_probability(text: str) -> bool:
    return is_number(text) and 0.0 < float(text) <= 1.0


def _cost(text: str, where: str) -> float:
    if not _is_probability(text):
        raise FormatError(f"{where}: expected a probability above 0 and at most 1 after the word, got {text!r}")
    return -math.log(float(text)) + 0.0
