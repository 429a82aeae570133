"""Lines of text files that may be compressed."""

from __future__ import annotations

import os
from collections.abc import Iterator

from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import kind_of
from arcbeam.files.packed_files import blocks

LONGEST_LINE = 1 << 20


def lines(path: str | os.PathLike[str], max_bytes: int | str | None = None) -> Iterator[tuple[int, str]]:
    """Numbered lines (from 1) without their ends or a byte order mark; FormatError for a line of more than a MiB."""
    number = 0
    rest = b""
    for block in blocks(path, max_bytes):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            number += 1
            yield number, _decoded(line, path, number)
        _check_length(rest, path, number + 1)
    if rest:
        yield number + 1, _decoded(rest, path, number + 1)


def fields(line: str) -> list[str]:
    """Fields separated only by spaces and tabs: other Unicode spaces may be part of a word or token."""
    return [f for f in line.replace("\t", " ").split(" ") if f]


def _check_length(line: bytes, path: str | os.PathLike[str], number: int) -> None:
    if len(line) > LONGEST_LINE:
        raise FormatError(f"{path}, line {number}: expected lines of at most {LONGEST_LINE} bytes, got a longer one")


def _decoded(line: bytes, path: str | os.PathLike[str], number: int) -> str:
    _check_length(line, path, number)
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        got = kind_of(line) if number == 1 else repr(line[:40])
        raise FormatError(f"{path}, line {number}: expected text in UTF-8, got {got}") from error
