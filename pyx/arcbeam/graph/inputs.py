"""The inputs from which a graph can be made: tables as paths or lists, and arcs in either form."""

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import GraphError
from arcbeam.graph import _graph
from arcbeam.graph.pronunciations import Pronunciations
from arcbeam.graph.symbols import SymbolTable, is_far_beyond
from arcbeam.graph.token_table import TokenTable, find_blank

StrPath: TypeAlias = str | os.PathLike[str]
Words: TypeAlias = StrPath | SymbolTable | Sequence[str] | None
Tokens: TypeAlias = StrPath | TokenTable | Sequence[str] | None
Meta: TypeAlias = Mapping[str, str | int | float]
Arcs: TypeAlias = Iterable[tuple[int, int, int, int, float]] | Sequence[npt.ArrayLike]


class WordingKeywords(TypedDict, total=False):
    """The keywords of `Wording`, for checks of types and for editors."""

    pronunciations: Pronunciations | None
    join: str
    separator: str | None
    separator_column: int | None
    meta: Meta | None


@dataclass(frozen=True)
class Wording:
    """How the words of a graph are written, and facts about it: the attributes of a `Graph` with these names."""

    pronunciations: Pronunciations | None = None
    join: str = "words"
    separator: str | None = None
    separator_column: int | None = None
    meta: Meta | None = None

    def __post_init__(self) -> None:
        if self.join not in ("words", "pieces"):
            raise ValueError(f'join: expected "words" or "pieces", got {self.join!r}')
        if self.separator is not None and not isinstance(self.separator, str):
            raise TypeError(f"separator: expected a str or None, got {type(self.separator).__name__}")
        if self.meta is not None and not isinstance(self.meta, Mapping):
            raise TypeError(f"meta: expected a mapping of str to facts, or None, got {type(self.meta).__name__}")


def unzip(arcs: Arcs) -> Sequence[npt.ArrayLike]:
    """Five arrays from arcs in either form."""
    if isinstance(arcs, Sequence) and len(arcs) == 5 and all(isinstance(array, np.ndarray) for array in arcs):
        return arcs
    rows = list(arcs)
    for index, row in enumerate(rows):
        if len(row) != 5 or isinstance(row[4], str):  # type: ignore[arg-type, index]
            raise ValueError(
                f"arc {index}: expected (source, destination, input label, output label, cost), got {row!r}"
            )
    if not rows:
        return [np.empty(0, np.int64)] * 4 + [np.empty(0, np.float32)]
    return list(zip(*rows, strict=True))


def as_words(words: Words) -> SymbolTable | None:
    """A symbol table from a table, a path or a list."""
    if words is None or isinstance(words, SymbolTable):
        return words
    if isinstance(words, (str, os.PathLike)):
        return SymbolTable.read(words)
    return SymbolTable.from_list(words)


def as_tokens(tokens: Tokens, blank: str | int | None) -> TokenTable | None:
    """A token table from a table, a path or a list."""
    if tokens is None or isinstance(tokens, TokenTable):
        return tokens
    if isinstance(tokens, (str, os.PathLike)):
        return TokenTable.read(tokens, blank)
    return TokenTable.from_list(tokens, blank)


def check_width(num_columns: int | None, tokens: TokenTable | None) -> None:
    """ValueError or TypeError unless a number of columns fits the tokens and 16 bits."""
    if num_columns is not None and (isinstance(num_columns, bool) or not isinstance(num_columns, numbers.Integral)):
        raise TypeError(f"num_columns: expected a whole number, or None, got {type(num_columns).__name__}")
    if tokens is not None and num_columns is not None and len(tokens) != num_columns:
        raise ValueError(f"tokens: expected {num_columns} columns, got {len(tokens)}")
    width = len(tokens) if tokens is not None else num_columns
    if width is not None and not 0 < width <= _graph.MOST_COLUMNS:
        what = "num_columns" if tokens is None else "tokens"
        raise ValueError(f"{what}: expected 1 to {_graph.MOST_COLUMNS} columns, got {width}")


def blank_column(tokens: TokenTable | None, blank: str | int | None, width: int, is_exact: bool) -> int | None:
    """The blank's column, if it is known; ValueError for one that is not there, or a token without tokens."""
    if tokens is not None:
        return tokens.blank if blank is None else find_blank(tokens.tokens, blank)
    if isinstance(blank, str):
        raise ValueError(f"blank: {blank!r} is a token, which needs tokens; give its column, or the tokens")
    if blank is not None and (isinstance(blank, bool) or not isinstance(blank, numbers.Integral)):
        raise TypeError(f"blank: expected a column, which is a whole number, got {type(blank).__name__}")
    if blank is not None and (blank < 0 or (is_exact and blank >= width)):
        raise ValueError(f"blank: expected a column from 0 to {width - 1}, got {blank}")
    return None if blank is None else int(blank)


def separator_column(tokens: TokenTable | None, separator: str | None) -> int | None:
    """The column of a separator that is a token of its own."""
    # A mark with which other tokens begin (such as SentencePiece's) starts words even if it is a token itself.
    if tokens is None or separator is None or separator not in tokens:
        return None
    if any(token != separator and token.startswith(separator) for token in tokens.tokens):
        return None
    return tokens.column(separator)


def check_words(columns: dict[str, npt.NDArray[Any]], symbols: SymbolTable) -> None:
    """GraphError for an arc that writes a word without a symbol."""
    words = columns["words"]
    most = int(words.max(initial=0))
    if is_far_beyond(most, len(symbols) + len(words)):
        columns = columns | {"words": np.where(np.isin(words, symbols.arrays()[0]), np.uint32(0), words)}
        known = np.zeros(0, np.uint8)
    else:
        known = symbols.known(most + 1)
    offender = _graph.unknown_word(columns, known)
    if offender is not None:
        state, arc, word = offender
        raise GraphError(
            f"state {state}, arc {arc}: writes word {word}, which has no symbol among the {len(symbols)} words"
        )
