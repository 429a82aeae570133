"""Tables of tokens: the columns of log-probs, which graphs read."""

import json
import numbers
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import as_texts
from arcbeam.core.errors import FormatError
from arcbeam.core.show import shown_as
from arcbeam.files.lines import read_lines
from arcbeam.graph.symbols import SymbolTable, split_line

BLANK_NAMES = frozenset({"<blank>", "<blk>", "<b>", "<pad>", "[pad]", "[blank]", "<ctc>", "<ctc_blank>", "<blank_id>"})
EPSILON_NAMES = frozenset({"<eps>", "<epsilon>"})
NUMBERED = re.compile(r"\S+,(\d{1,9})")  # a token and its id in a table with commas


class TokenTable:
    """The columns of a model's log-probs: column -> token, and which of them is the blank; immutable.

    Attributes
    ----------
    tokens : tuple of str
        The token of every column.
    blank : int or None
        The blank's column.
    """

    @lists_options()
    def __init__(self, tokens: Sequence[str], blank: int | None) -> None:
        self.tokens = tuple(tokens)
        self.blank = blank
        self._columns = {token: column for column, token in enumerate(self.tokens)}

    @classmethod
    @lists_options()
    def read(cls, path: str | os.PathLike[str], blank: str | int | None = None) -> Self:
        """Reads a text file of tokens in any of three forms.

        * A token and its id per line, with ``<eps> 0``: the column is the id less one.
        * A token and its id per line, without ``<eps>``: the column is the id.
        * One token per line: the column is the number of lines before it.

        Disambiguation symbols (``#0``, ``#1``, ...) at the end of a table with ids have no column.

        Parameters
        ----------
        path
            UTF-8 text. A line with only an id after white space names the token " ".
        blank
            The blank's token or column. None: the usual name that is there (``<blank>``, ``<blk>``, ``<b>``, ``<pad>``,
            ``[PAD]``, ...). ``"<eps>"``: the first form's line ``<eps> 0`` is the blank, and the column is the id.

        Raises
        ------
        FormatError
            The file can be read in more than one way (ids that start at 1; ``<eps> 0`` without a token with a usual
            name of the blank, so that ``<eps>`` may be the blank, also if column 0 is given; several such tokens), or
            in none. The message names the line if there is one.
        OSError
            The file cannot be read.
        """
        lines = [(number, line) for number, line in read_lines(path) if line]
        if not lines:
            raise FormatError(f"{path}: expected tokens, got an empty file")
        if other := other_form([line for _, line in lines]):
            raise FormatError(
                f"{path}: expected tokens, one a line in the order of the columns, or 'token id', got {other}"
            )
        split = [split_line(line) for _, line in lines]
        with_ids = split[0][1] is not None
        numbered: dict[int, tuple[int, str]] = {}
        for position, ((number, line), (symbol, found)) in enumerate(zip(lines, split, strict=True)):
            if (found is not None) != with_ids:
                form = "a token and its id, as in the first line" if with_ids else "a token without an id, as the first"
                raise FormatError(f"{path}, line {number}: expected {form}, got {line[:80]!r}")
            key = position if found is None else found
            if key in numbered:
                raise FormatError(f"{path}, line {number}: id {key} occurs twice, first in line {numbered[key][0]}")
            numbered[key] = (number, line if found is None else symbol)
        first, last = min(numbered), max(numbered)
        if first == 1 and last == len(numbered):
            raise FormatError(
                f"{path}: ids start at 1 and there is no '<eps> 0', so the column of {numbered[1][1]!r} may be 0 or 1; "
                f"add a line '<eps> 0', or start ids at 0"
            )
        if first != 0 or last != len(numbered) - 1:
            missing = next(i for i in range(len(numbered) + 1) if i not in numbered)
            raise FormatError(
                f"{path}: expected the ids 0 to {len(numbered) - 1}, each once; id {missing} is missing "
                f"(ids run from {first} to {last})"
            )
        symbols: dict[str, int] = {}
        for key in range(len(numbered)):
            number, symbol = numbered[key]
            if symbol in symbols:
                raise FormatError(
                    f"{path}, line {number}: token {symbol!r} occurs twice, first with id {symbols[symbol]}"
                )
            symbols[symbol] = key
        tokens = drop_disambiguation(list(symbols)) if with_ids else list(symbols)
        if tokens[0] in EPSILON_NAMES and blank != tokens[0]:
            tokens = drop_epsilon(tokens)
            if blank in (None, 0) and not any(token.lower() in BLANK_NAMES for token in tokens):
                raise FormatError(
                    f"{path}: it has {numbered[0][1]!r} with id 0 and no token with a usual name of the "
                    f"blank, so it is ambiguous whether {numbered[0][1]!r} is the blank; name the blank, such as "
                    f"blank={numbered[0][1]!r} (--blank). (If the file has the words of a graph, the tables of words "
                    "and tokens are swapped.)"
                )
        try:
            return cls.from_list(tokens, blank)
        except ValueError as error:
            raise FormatError(f"{path}: {error}") from None

    @classmethod
    @lists_options()
    def from_list(cls, tokens: Iterable[str], blank: str | int | None = None) -> Self:
        """A table in which a token's position is its column.

        Raises
        ------
        TypeError
            Tokens that are not str, or are not a sequence.
        ValueError
            A token occurs twice, or `blank` is not one of them.
        """
        tokens = as_texts("tokens", tokens, "column")
        if len(set(tokens)) != len(tokens):
            twice = next(token for i, token in enumerate(tokens) if token in tokens[:i])
            raise ValueError(f"token {twice!r} occurs twice")
        return cls(tokens, find_blank(tokens, blank))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, column: int) -> str:
        return self.tokens[column]

    def __contains__(self, token: object) -> bool:
        return token in self._columns

    def column(self, token: str) -> int:
        """The column of a token; KeyError if there is none."""
        return self._columns[token]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenTable):
            return NotImplemented
        return (self.tokens, self.blank) == (other.tokens, other.blank)

    def __hash__(self) -> int:
        return hash((self.tokens, self.blank))

    def __repr__(self) -> str:
        blank = "no blank" if self.blank is None else f"blank {self.tokens[self.blank]!r} in column {self.blank}"
        return shown_as(f"TokenTable of {len(self):,} tokens", blank)


def other_form(lines: Sequence[str]) -> str | None:
    """What lines are in place of tokens, where that is certain: JSON, ids that come first, or texts."""
    if lines[0].lstrip()[:1] in ("{", "["):
        try:
            json.loads("\n".join(lines))
        except (ValueError, RecursionError):
            return None  # a token may begin so
        return "JSON, which arcbeam.ctc_decoder reads from a file whose name ends in .json"
    fields = [line.split(maxsplit=1) for line in lines]
    are_pairs = all(len(both) == 2 for both in fields) and not all(both[1].isdecimal() for both in fields)
    if are_pairs and sorted(both[0] for both in fields) == sorted(map(str, range(len(lines)))):
        return f"the ids first, such as {lines[0][:80]!r}"
    numbered = [NUMBERED.fullmatch(line) for line in lines]
    ids = [int(found[1]) for found in numbered if found]
    if len(lines) > 1 and len(ids) == len(lines) and sorted(ids) == list(range(min(ids), min(ids) + len(ids))):
        return f"a comma before the ids, such as {lines[0][:80]!r}: write a space or a tab in its place"
    if len(lines) > 1 and all(len(both) == 2 and not both[1].split()[-1].isdecimal() for both in fields):
        return f"several words a line, such as {lines[0][:80]!r}"
    return None


def find_blank(tokens: Sequence[str], blank: str | int | None) -> int | None:
    """The blank's column: as given by name or column, else the one token with a usual name, else None."""
    if isinstance(blank, str):
        if blank not in tokens:
            raise ValueError(f"the blank {blank!r} is not among the {len(tokens)} tokens")
        return tokens.index(blank)
    if blank is not None:
        if isinstance(blank, bool) or not isinstance(blank, numbers.Integral):
            raise TypeError(f"blank: expected a token, its column, or None, got {type(blank).__name__}")
        if not 0 <= blank < len(tokens):
            raise ValueError(
                f"the blank's column is {blank}; expected 0 to {len(tokens) - 1}, because there are {len(tokens)} "
                "tokens: is the line of the blank missing from them?"
            )
        return int(blank)
    found = [column for column, token in enumerate(tokens) if token.lower() in BLANK_NAMES]
    if len(found) > 1:
        raise ValueError(
            f"{tokens[found[0]]!r} (column {found[0]}) and {tokens[found[1]]!r} (column {found[1]}) both "
            f"look like the blank; name the blank (blank=)"
        )
    return found[0] if found else None


def check_same(
    name: str, given: SymbolTable | TokenTable | None, own: SymbolTable | TokenTable | None, path: Any
) -> None:
    """ValueError if a table that was given contradicts the one in the file; the name of epsilon, 0, may differ."""
    if given is None or own is None or given == own:
        return
    theirs, ours = (
        dict(table.items() if isinstance(table, SymbolTable) else enumerate(table.tokens)) for table in (given, own)
    )
    differ = [i for i, symbol in ours.items() if i in theirs and theirs[i] != symbol and (i or name == "tokens")]
    if differ:
        first = differ[0]
        raise ValueError(
            f"{name}: they are those of another graph than {path}, whose own differ in {len(differ):,} of "
            f"{len(ours):,}: {first} is {ours[first]!r} there, and {theirs[first]!r} here. Leave them out, as the "
            f"file contains its own, or set force=True (--force) to replace these"
        )


def drop_epsilon(symbols: Sequence[str]) -> list[str]:
    """Input symbols without the epsilon in front and the disambiguation symbols at the end."""
    return drop_disambiguation(symbols)[1:]


def drop_disambiguation(symbols: Sequence[str]) -> list[str]:
    """Symbols without the disambiguation symbols at the end, which no column stands for."""
    end = len(symbols)
    while end > 1 and symbols[end - 1].startswith("#") and symbols[end - 1][1:].isdecimal():
        end -= 1
    return list(symbols[:end])
