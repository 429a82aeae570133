"""Tables of symbols by id, such as the words that graphs write."""

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import as_texts
from arcbeam.core.errors import FormatError
from arcbeam.core.show import shown_as
from arcbeam.files.lines import read_lines
from arcbeam.files.writing import replacing_text

T = TypeVar("T")

MOST_IDS = 1 << 32
SPACES = " \t"
FEW_IDS = 1 << 22
IDS_A_THING = 256


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


def is_far_beyond(most: int, count: int) -> bool:
    """Whether a table up to id `most` would be too large for `count` ids: gigabytes because of a small file."""
    return most > max(FEW_IDS, IDS_A_THING * count)


def split_line(line: str) -> tuple[str, int | None]:
    """Symbol and id of a line; the id is None if the line does not end with one."""
    text = line.rstrip(SPACES)
    cut = max(text.rfind(" "), text.rfind("\t"))
    digits = text[cut + 1 :]
    if cut < 0 or not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
        return line, None
    symbol = text[:cut].rstrip(SPACES)
    return symbol or " ", int(digits)
