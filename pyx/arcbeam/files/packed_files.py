"""Files that may be compressed, recognised by their first bytes and not by their names."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, Protocol, Self

from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import XZ_BYTES
from arcbeam.files.reading import Budget, check_is_file, reading

CHUNK = 1 << 16
BLOCK = 1 << 22
_UNSUPPORTED = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Streams:
    """The content of one or more compressed streams, one after the other."""

    def __init__(self, file: IO[bytes], new: Callable[[], Any], padding: bytes) -> None:
        self._file = file
        self._new = new
        self._padding = padding
        self._decoder = new()

    def read(self, size: int, /) -> bytes:
        while True:
            data = b""
            if self._decoder.eof:
                data = (self._decoder.unused_data or self._file.read(CHUNK)).lstrip(self._padding)
                while not data:
                    chunk = self._file.read(CHUNK)
                    if not chunk:
                        return b""
                    data = chunk.lstrip(self._padding)
                self._decoder = self._new()
            elif self._decoder.needs_input:
                data = self._file.read(CHUNK)
                if not data:
                    raise EOFError("the compressed data ends early")
            found: bytes = self._decoder.decompress(data, size)
            if found:
                return found


class PackedFile:
    """A plain, gzip, xz or bzip2 file, open to be read once from its beginning; see `Budget` for `max_bytes`."""

    def __init__(self, path: str | os.PathLike[str], max_bytes: int | str | None = None) -> None:
        self.path = os.fspath(path)  # not a number, which would be an open file's
        check_is_file(self.path)
        self._file = open(self.path, "rb")  # noqa: SIM115 - closed by close()
        try:
            size = os.fstat(self._file.fileno()).st_size
            budget = Budget(self.path, size, max_bytes)
            self._packed = self._open(max(XZ_BYTES, 0 if max_bytes is None else budget.most))
        except BaseException:
            self._file.close()
            raise
        self._budget = None if self._packed is None else budget
        self.most = size if self._packed is None else budget.most  # bytes that it may unpack to

    def _open(self, xz_bytes: int) -> _Readable | None:
        head = self._file.read(8)
        self._file.seek(0)
        for magic, name in _UNSUPPORTED.items():
            if head.startswith(magic):
                raise FormatError(f"{self.path}: expected a plain, gzip, xz or bzip2 file, got {name}")
        if head.startswith(b"\x1f\x8b"):
            return gzip.open(self._file)
        if head.startswith(b"\xfd7zXZ\x00"):
            return _Streams(self._file, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, xz_bytes), b"\0")
        if head.startswith(b"BZh"):
            return _Streams(self._file, bz2.BZ2Decompressor, b"")
        return None

    def read(self, size: int, /) -> bytes:
        """The next bytes: at most `size`, and at least one unless the file has ended."""
        if self._packed is None or self._budget is None:
            return self._file.read(min(size, self.most))
        with reading(self.path, "a compressed file"):
            data = self._packed.read(min(size, self.most + 1))
            self._budget.take(len(data), "decompressed content")
        return data

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """The rest of the content of a text in blocks, without a byte order mark."""
        mark = codecs.BOM_UTF8
        while block := self.read(size):
            yield block.removeprefix(mark)
            mark = b""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def blocks(path: str | os.PathLike[str], max_bytes: int | str | None = None) -> Iterator[bytes]:
    """The content of a text in blocks, without a byte order mark; see `PackedFile`."""
    with PackedFile(path, max_bytes) as file:
        yield from file.blocks()
