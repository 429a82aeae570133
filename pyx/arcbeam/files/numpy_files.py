"""Reads NumPy's files from anywhere: sizes are checked before memory is allocated, and no pickle is read."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import IO, Literal, NamedTuple, Self

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.files.reading import Budget, reading
from arcbeam.files.zip_file import ZipMembers, read_exactly

MAGIC = b"\x93NUMPY"
ZIP = b"PK\3\4"
LONGEST_HEADER = 1 << 16
DTYPE = re.compile(rb"'descr'\s*:\s*'([<>|=]?[A-Za-z?][0-9]{0,9})'")
FORTRAN = re.compile(rb"'fortran_order'\s*:\s*(True|False)")
SHAPE = re.compile(rb"'shape'\s*:\s*\(([0-9L, ]*)\)")
MOST_AXES = 8
KINDS = "fciubUS"
PASSED = 1 << 20  # bytes of rows that are read at a time where nobody takes them
EXPECTED = "an archive of arrays in NumPy's format"


class Header(NamedTuple):
    """The type and shape of an array, and where its values begin."""

    dtype: np.dtype
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    begin: int

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return prod(self.shape) * self.dtype.itemsize


def read_header(data: bytes) -> Header:
    """The header of a .npy file; `data` need only be the file's beginning. FormatError if there is none."""
    if data.startswith(ZIP):
        raise FormatError("expected an array, got an archive of arrays; give it a name that ends in .npz")
    if len(data) < 10 or not data.startswith(MAGIC):
        raise FormatError("expected an array, got something that does not begin like one")
    version, width = data[6], 2 if data[6] == 1 else 4
    if version not in (1, 2):
        raise FormatError(f"expected version 1 or 2 of the format, got {version}")
    begin = 8 + width
    size = int.from_bytes(data[8:begin], "little")
    text = data[begin : begin + size]
    if size > LONGEST_HEADER or len(text) < size:
        raise FormatError(f"expected a header of {size} bytes, got {len(text)}")
    descr, fortran, shape = (pattern.search(text) for pattern in (DTYPE, FORTRAN, SHAPE))
    if descr is None or fortran is None or shape is None:
        raise FormatError(f"expected a type, an order and a shape in the header, got {text[:80]!r}")
    if b"O" in descr[1]:
        raise FormatError("expected numbers or text, got Python objects")
    dtype = np.dtype(descr[1].decode("ascii"))
    numbers = tuple(int(n) for n in re.findall(rb"[0-9]{1,18}", shape[1]))
    if dtype.kind not in KINDS or not dtype.itemsize or len(numbers) > MOST_AXES:
        raise FormatError(f"expected numbers or text, got {dtype} of {len(numbers)} dimensions")
    return Header(dtype, numbers, "F" if fortran[1] == b"True" else "C", begin + size)


def map_npy(path: Path) -> np.ndarray:
    """The array of a .npy file, memory-mapped."""
    with open(path, "rb") as file, reading(path, "an array in NumPy's format"):
        size = os.fstat(file.fileno()).st_size
        header = read_header(file.read(LONGEST_HEADER + 12))
        _check_size(header, size)
        if not header.nbytes:
            return np.zeros(header.shape, header.dtype)
        return _aligned(np.memmap(file, header.dtype, "r", header.begin, header.shape, header.order))


def _check_size(header: Header, size: int) -> None:
    if header.begin + header.nbytes != size:
        raise FormatError(f"expected {header.nbytes} bytes for the shape {header.shape}, got {size - header.begin}")


def _aligned(array: np.ndarray) -> np.ndarray:
    # A header may have any length, so values may begin at an address that the machine cannot read.
    return array if array.flags.aligned else array.copy()


def _header_of(data: bytes, size: int, name: str) -> Header:
    """The header of an array in an archive, of so many bytes with it."""
    try:
        header = read_header(data)
        _check_size(header, size)
    except FormatError as error:
        raise FormatError(f"array {name!r}: {error}") from None
    return header


def _check_characters(content: bytes, dtype: np.dtype, begin: int, name: str) -> None:
    """FormatError for text with numbers beyond Unicode, of which numpy makes a SystemError when it is read."""
    numbers = np.frombuffer(content, dtype.str[0] + "u4", offset=begin)
    if numbers.size and int(numbers.max()) > sys.maxunicode:
        raise FormatError(f"array {name!r}: expected text, got the number {int(numbers.max())}, which is no character")


class Rows:
    """An array of an archive: its parts along the first axis, read one after the other."""

    def __init__(self, path: Path, name: str, header: Header, file: IO[bytes], ahead: bytes) -> None:
        self.dtype, self.shape = header.dtype, header.shape
        self._path, self._name, self._file, self._ahead = path, name, file, ahead
        self._row_bytes = header.nbytes // max((1, *header.shape[:1]))
        self._whole: np.ndarray | None = None
        self._at = 0
        self._damage: Exception | None = None
        if header.order == "F" and len(header.shape) > 1:  # whose rows lie apart
            with reading(path, EXPECTED):
                self._whole = np.ndarray(header.shape, header.dtype, self._read(header.nbytes), order="F")

    def take(self, count: int) -> np.ndarray:
        """The next `count` rows; FormatError if the file is damaged, which its last row may reveal."""
        self._at += count
        if self._whole is not None:
            return self._whole[self._at - count : self._at]
        if self._damage is not None:  # where the rows after it begin is not known
            raise self._damage
        try:
            with reading(self._path, EXPECTED):
                content = self._read(count * self._row_bytes)
                if self.dtype.kind == "U":
                    _check_characters(content, self.dtype, 0, self._name)
                return np.ndarray((count, *self.shape[1:]), self.dtype, content)
        except (OSError, FormatError) as error:
            self._damage = error
            raise

    def parts(
        self, count: int, of: Callable[[np.ndarray], np.ndarray] = lambda rows: rows
    ) -> Iterator[Callable[[], np.ndarray]]:
        """Yields once: what returns `of` the next `count` rows; if it is not called, they are passed over."""
        at = self._at
        yield lambda: of(self.take(count))
        if self._at == at and count:
            with suppress(OSError, FormatError):  # which the next that is read raises
                self._pass_over(count)

    def _pass_over(self, count: int) -> None:
        """Reads rows in blocks, and drops them."""
        most = max(1, PASSED // max(1, self._row_bytes))
        for left in range(count, 0, -most):
            self.take(min(most, left))

    def _read(self, size: int) -> bytes:
        first, self._ahead = self._ahead[:size], self._ahead[size:]
        if len(first) == size:
            return first
        return first + read_exactly(self._file, size - len(first), f"array {self._name!r}")


class Archive:
    """The arrays of a .npz file by name, read one by one; `max_bytes` limits them together, see `Budget`."""

    def __init__(self, path: Path, max_bytes: int | str | None = None) -> None:
        self.path = path
        self._file: IO[bytes] = open(path, "rb")  # noqa: SIM115 - closed by close()
        try:
            size = os.fstat(self._file.fileno()).st_size
            budget = Budget(path, size, max_bytes)
            with reading(path, EXPECTED):
                if self._file.read(4) not in (ZIP, b"PK\5\6"):
                    raise FormatError("expected a .npz file, got one that does not begin like a zip archive")
                self._members = ZipMembers(self._file, size, budget)
        except BaseException:
            self._file.close()
            raise
        self.names = [name.removesuffix(".npy") for name in self._members.names]

    def read(self, name: str) -> np.ndarray:
        """The array of this name."""
        with reading(self.path, EXPECTED):
            content = self._members.read(self._member(name))
            header = _header_of(content, len(content), name)
            if header.dtype.kind == "U":
                _check_characters(content, header.dtype, header.begin, name)
            return _aligned(np.ndarray(header.shape, header.dtype, content, header.begin, order=header.order))

    def rows(self, name: str) -> "Rows":
        """The array of this name, which is read piece by piece."""
        with reading(self.path, EXPECTED):
            file, size = self._members.open(self._member(name))
            ahead = file.read(min(size, LONGEST_HEADER + 12))
            header = _header_of(ahead, size, name)
        return Rows(self.path, name, header, file, ahead[header.begin :])

    def _member(self, name: str) -> str:
        member = f"{name}.npy"
        if member not in self._members:
            raise FormatError(f"{name!r} in the archive is not an array")
        return member

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._members.close()
        self._file.close()
