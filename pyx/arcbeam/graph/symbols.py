"""Tables of symbols: the words that graphs write, and the tokens (columns) that they read."""

import itertools
import json
import numbers
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import as_texts
from arcbeam.core.errors import FormatError
from arcbeam.core.show import shown_as
from arcbeam.files.lines import read_lines
from arcbeam.files.writing import replacing_text

T = TypeVar("T")

BLANK_NAMES = frozenset({"<blank>", "<blk>", "<b>", "<pad>", "[pad]", "[blank]", "<ctc>", "<ctc_blank>", "<blank_id>"})
EPSILON_NAMES = frozenset({"<eps>", "<epsilon>"})
MOST_IDS = 1 << 32
SPACES = " \t"
FEW_IDS = 1 << 22
IDS_A_THING = 256
NUMBERED = re.compile(r"\S+,(\d{1,9})")  # a token and its id in a table with commas


class SymbolTable:
    """Symbols by id; immutable. Ids are 0 to 2**32 - 1 and need not be dense.

    Symbols are kept as one run of UTF-8 bytes, so that a table in a graph file is used where it lies.

    Parameters
    ----------
    ids
        Ids in ascending order, int64 [symbols].
    offsets
        Symbol i is bytes ``offsets[i]`` to ``offsets[i + 1]`` of `text`, int64 [symbols + 1].
    text
        UTF-8, uint8.
    """

    @lists_options()
    def __init__(self, ids: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], text: npt.NDArray[np.uint8]) -> None:
        self._ids = ids
        self._offsets = offsets
        self._text = text
        self._dense = len(ids) == 0 or (int(ids[0]) == 0 and int(ids[-1]) == len(ids) - 1)
        self._by_symbol: dict[str, int] | None = None

    @classmethod
    @lists_options()
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a text file with a symbol and its id on each line, as OpenFst and Kaldi write them.

        The id follows the last space or tab; a line with only an id after white space names the symbol " ".

        Raises
        ------
        FormatError
            A line without an id, an id or symbol that occurs twice, or text that is not UTF-8; the message names the
            line.
        OSError
            The file cannot be read.
        """
        ids: dict[int, int] = {}
        symbols: dict[str, int] = {}
        for number, line in read_lines(path):
            if not line.strip():
                continue
            symbol, found = split_line(line)
            if found is None:
                raise FormatError(f"{path}, line {number}: expected a symbol and its id, got {line[:80]!r}")
            if found >= MOST_IDS:
                raise FormatError(f"{path}, line {number}: id {found} is too large; expected at most {MOST_IDS - 1}")
            if found in ids:
                raise FormatError(f"{path}, line {number}: id {found} occurs twice, first in line {ids[found]}")
            if symbol in symbols:
                raise FormatError(
                    f"{path}, line {number}: symbol {symbol!r} occurs twice, first with id {symbols[symbol]}"
                )
            ids[found] = number
            symbols[symbol] = found
        return cls.from_ids(symbols.values(), symbols)

    @classmethod
    @lists_options()
    def from_list(cls, symbols: Iterable[str]) -> Self:
        """A table in which a symbol's position is its id: ``["<eps>", "the", ...]``; TypeError without an order."""
        symbols = as_texts("symbols", symbols, "id")
        return cls.from_ids(range(len(symbols)), symbols)

    @classmethod
    @lists_options()
    def from_ids(cls, ids: Iterable[int], symbols: Iterable[str]) -> Self:
        """A table from ids and their symbols, in any order; ValueError if one occurs twice."""
        pairs = sorted(zip(ids, symbols, strict=True), key=lambda pair: pair[0])
        for (a, _), (b, symbol) in itertools.pairwise(pairs):
            if a == b:
                raise ValueError(f"id {a} occurs twice, the second time as {symbol!r}")
        if pairs and (pairs[0][0] < 0 or pairs[-1][0] >= MOST_IDS):
            raise ValueError(f"ids run from {pairs[0][0]} to {pairs[-1][0]}; expected 0 to {MOST_IDS - 1}")
        if len({symbol for _, symbol in pairs}) != len(pairs):
            seen: set[str] = set()
            for found, symbol in pairs:
                if symbol in seen:
                    raise ValueError(f"symbol {symbol!r} occurs twice, the second time with id {found}")
                seen.add(symbol)
        encoded = [symbol.encode() for _, symbol in pairs]
        offsets = np.zeros(len(pairs) + 1, "<i8")
        np.cumsum([len(symbol) for symbol in encoded], out=offsets[1:])
        return cls(np.array([i for i, _ in pairs], "<i8"), offsets, np.frombuffer(b"".join(encoded), np.uint8))

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, symbol_id: int) -> str:
        """The symbol of an id; KeyError if the id has none."""
        at = self._position(symbol_id)
        if at < 0:
            raise KeyError(f"id {symbol_id} has no symbol; the table has {len(self)}")
        return bytes(self._text[int(self._offsets[at]) : int(self._offsets[at + 1])]).decode()

    def get(self, symbol_id: int, default: T) -> str | T:
        """The symbol of an id, or `default`."""
        return self[symbol_id] if self._position(symbol_id) >= 0 else default

    def id(self, symbol: str) -> int:
        """The id of a symbol; KeyError if there is none."""
        if self._by_symbol is None:
            self._by_symbol = {known: found for found, known in self.items()}
        return self._by_symbol[symbol]

    def __iter__(self) -> Iterator[str]:
        return (symbol for _, symbol in self.items())

    def __contains__(self, symbol: object) -> bool:
        try:
            self.id(symbol)  # type: ignore[arg-type]
        except KeyError:
            return False
        return True

    def items(self) -> Iterator[tuple[int, str]]:
        """Pairs of id and symbol, by ascending id."""
        text = self._text.tobytes()
        offsets = self._offsets.tolist()
        for at, found in enumerate(self._ids.tolist()):
            yield found, text[offsets[at] : offsets[at + 1]].decode()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SymbolTable):
            return NotImplemented
        return (
            np.array_equal(self._ids, other._ids)
            and np.array_equal(self._offsets, other._offsets)
            and np.array_equal(self._text, other._text)
        )

    def __hash__(self) -> int:
        return hash((len(self), self._text[:4096].tobytes()))

    def __repr__(self) -> str:
        return shown_as(f"SymbolTable of {len(self):,} symbols", *() if self._dense else ("ids with gaps",))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes a symbol and its id on each line, in the form that `read` takes.

        Raises
        ------
        ValueError
            A symbol that such a line cannot hold: with a line feed in it, with white space at its end, or empty.
            Nothing is written then.
        """
        for at, (found, symbol) in enumerate(self.items()):
            begins = symbol if at else symbol.removeprefix("\ufeff")  # at the start of a file it is a byte order mark
            if "\n" in symbol or begins != symbol or split_line(f"{symbol} {found}") != (symbol, found):
                raise ValueError(
                    f"{os.fspath(path)}: expected symbols that a line of text can hold, with no line feed and no white "
                    f"space at the end, got {symbol!r} with id {found}; Graph.save keeps any symbol"
                )
        with replacing_text(path) as out:
            out.writelines(f"{symbol} {found}\n" for found, symbol in self.items())

    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Ids, offsets and text, as the constructor takes them."""
        return self._ids, self._offsets, self._text

    def known(self, size: int) -> npt.NDArray[np.uint8]:
        """uint8: 1 for each id below `size` that has a symbol, else 0; no longer than the largest id needs."""
        most = int(self._ids[-1]) + 1 if len(self) else 0
        marks = np.zeros(min(size, most), np.uint8)
        marks[self._ids[: int(np.searchsorted(self._ids, len(marks)))]] = 1
        return marks

    def check(self) -> None:
        """FormatError unless the arrays, which may come from anywhere, are a table."""
        ids, offsets, text = self.arrays()
        if len(offsets) != len(ids) + 1 or int(offsets[0]) != 0 or int(offsets[-1]) != len(text):
            raise FormatError(
                f"symbol table: {len(ids)} ids, {len(offsets)} offsets and {len(text)} bytes of text do "
                f"not fit together"
            )
        if len(ids) and (int(ids[0]) < 0 or int(ids[-1]) >= MOST_IDS or np.any(ids[1:] <= ids[:-1])):
            raise FormatError("symbol table: ids do not ascend from 0")
        if np.any(offsets[1:] < offsets[:-1]):
            at = int(np.argmax(offsets[1:] < offsets[:-1]))
            raise FormatError(f"symbol table: symbol {at} ends before it begins")
        inside = offsets[(offsets > 0) & (offsets < len(text))]
        try:
            text.tobytes().decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"symbol table: the text is not UTF-8: {error}") from None
        if np.any((text[inside] & 0xC0) == 0x80):
            raise FormatError("symbol table: a symbol ends within a character")

    def _position(self, symbol_id: int) -> int:
        if self._dense:
            return symbol_id if 0 <= symbol_id < len(self._ids) else -1
        at = int(np.searchsorted(self._ids, symbol_id))
        return at if at < len(self._ids) and int(self._ids[at]) == symbol_id else -1


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
            ``[PAD]``, ...).

        Raises
        ------
        FormatError
            The file can be read in more than one way (ids that start at 1; ``<eps> 0`` without a token that looks like
            the blank, so that ``<eps>`` may be the blank; several tokens that look like it), or in none. The message
            names the line if there is one.
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
            if blank is None and not any(token.lower() in BLANK_NAMES for token in tokens):
                raise FormatError(
                    f"{path}: it has {numbered[0][1]!r} with id 0 and no token that looks like the "
                    f"blank, so it is ambiguous whether {numbered[0][1]!r} is the blank; name the blank. (If the "
                    "file has the words of a graph, the tables of words and tokens are swapped.)"
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
        return "JSON, which arcbeam.ctc_decoder reads"
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


def is_far_beyond(most: int, count: int) -> bool:
    """Whether a table up to id `most` would be too large for `count` ids: gigabytes because of a small file."""
    return most > max(FEW_IDS, IDS_A_THING * count)


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


def split_line(line: str) -> tuple[str, int | None]:
    """Symbol and id of a line; the id is None if the line does not end with one."""
    text = line.rstrip(SPACES)
    cut = max(text.rfind(" "), text.rfind("\t"))
    digits = text[cut + 1 :]
    if cut < 0 or not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
        return line, None
    symbol = text[:cut].rstrip(SPACES)
    return symbol or " ", int(digits)
