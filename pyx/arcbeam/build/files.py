"""Text files that may be compressed, recognised by their first bytes and not by their names."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import IO

from arcbeam.errors import FormatError

_OPENERS = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}
_UNSUPPORTED = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}


def open_bytes(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a plain, gzip, xz or bzip2 file for reading its text as bytes."""
    with open(os.fspath(path), "rb") as file:
        head = file.read(8)
    for magic, name in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise FormatError(f"{path}: expected a plain, gzip, xz or bzip2 file, got {name}")
    for magic, opener in _OPENERS.items():
        if head.startswith(magic):
            return opener(path, "rb")  # type: ignore[operator]
    return open(path, "rb")


def blocks(path: str | os.PathLike[str], size: int = 1 << 22) -> Iterator[bytes]:
    """The text of a file in blocks; FormatError if its compressed form is damaged or cut short."""
    with open_bytes(path) as file:
        while block := _guarded_read(file, path, size):
            yield block


def lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Numbered lines (from 1) of a UTF-8 file, without their line ends; a byte order mark is skipped."""
    number = 0
    rest = b""
    for block in blocks(path):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            number += 1
            yield number, _decoded(line, path, number)
    if rest:
        yield number + 1, _decoded(rest, path, number + 1)


def fields(line: str) -> list[str]:
    """Fields parted by blanks and tabs alone: other Unicode spaces may be part of a word or token."""
    return [f for f in line.replace("\t", " ").split(" ") if f]


def _guarded_read(file: IO[bytes], path: str | os.PathLike[str], size: int) -> bytes:
    try:
        return file.read(size)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise FormatError(f"{path}: the compressed file is damaged or cut short: {error}") from error
    except OSError as error:
        if error.errno is None:  # bz2 says so
            raise FormatError(f"{path}: the compressed file is damaged or cut short: {error}") from error
        raise


def _decoded(line: bytes, path: str | os.PathLike[str], number: int) -> str:
    if number == 1 and line.startswith(b"\xef\xbb\xbf"):
        line = line[3:]
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}, line {number}: expected UTF-8, got {line[:40]!r}") from error
