"""Reads a few files of a tar archive from anywhere, in one pass; only plain members, the rest is skipped by its length.

Python's tarfile trusts an archive: its sizes, sparse files, headers of any size, copied for each member.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import refuse_other
from arcbeam.files.packed_files import PackedFile
from arcbeam.files.reading import check_is_file, reading

BLOCK = 512
PIECE = 1 << 20
MOST_MEMBERS = 10_000
LONGEST_RECORDS = 1 << 20
# Types of members: regular files, records about the next file, members that are skipped, members without content.
REGULAR, RECORDS, PASSED_OVER, EMPTY = b"0\x007", b"x", b"gLK", b"123456"
SIZE_RECORD = re.compile(rb"(?:^|\n)[0-9]{1,5} size=([0-9]{1,19})\n")


def read_members(
    path: str | os.PathLike[str], names: Collection[str], expected: str, max_bytes: int | str | None = None
) -> dict[str, bytes]:
    """Content of the regular files whose names, without folders, are given; the first of those with equal names.

    A ``*`` in `names` stands for anything.
    """
    check_is_file(path)
    refuse_other(path, expected, "a tar archive", "packed")
    found: dict[str, bytes] = {}
    with PackedFile(path, max_bytes) as file, reading(path, expected):
        for member, size in _members(file):
            base = member.rpartition("/")[2]
            if base not in found and any(fnmatchcase(base, name) for name in names):
                found[base] = _read(file, size)
                _skip(file, -size % BLOCK)
            else:
                _skip(file, size + -size % BLOCK)
    return found


def _members(file: PackedFile) -> Iterator[tuple[str, int]]:
    """Names and sizes of regular files; before the next step the caller must read this one to its last block's end."""
    size_of_next: int | None = None
    for _ in range(MOST_MEMBERS):
        header = _read(file, BLOCK, may_end=True)
        if not header.strip(b"\0"):  # the end mark, or the end of a file without one
            return
        checksum = 256 + sum(header) - sum(header[148:156])  # with spaces in place of the stored sum
        if len(header) < BLOCK or _octal(header[148:156]) != checksum:
            raise ValueError("the checksum of a header does not fit")
        kind, size = header[156:157], _number(header[124:136])
        if kind in REGULAR:
            size, size_of_next = size if size_of_next is None else size_of_next, None
            yield header[:100].partition(b"\0")[0].decode("utf-8", "replace"), size
        elif kind in RECORDS and size <= LONGEST_RECORDS:
            record = SIZE_RECORD.search(_read(file, size + -size % BLOCK)[:size])
            size_of_next = int(record[1]) if record else None
        elif kind in PASSED_OVER + RECORDS:
            _skip(file, size + -size % BLOCK)
        elif kind not in EMPTY:
            raise FormatError(f"expected plain files in the archive, got a member of type {kind!r}")
    raise FormatError(f"expected at most {MOST_MEMBERS:,} members in the archive, got more")


def _octal(field: bytes) -> int:
    text = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]{0,12}", text):
        raise ValueError(f"expected an octal number in a header, got {field!r}")
    return int(text or b"0", 8)


def _number(field: bytes) -> int:
    """A size: in octal digits, or if it does not fit, as a binary number after a mark."""
    return int.from_bytes(field[1:], "big") if field[0] == 0x80 else _octal(field)


def _check_size(file: PackedFile, size: int) -> None:
    if size > file.most:
        raise FormatError(f"expected at most {file.most:,} bytes in the archive, got a member of {size:,}")


def _read(file: PackedFile, size: int, *, may_end: bool = False) -> bytes:
    if not may_end:
        _check_size(file, size)
    pieces = []
    left = size
    while left and (piece := file.read(left)):
        pieces.append(piece)
        left -= len(piece)
    if left and not (may_end and left == size):
        raise EOFError(f"expected {left} more bytes")
    return b"".join(pieces)


def _skip(file: PackedFile, size: int) -> None:
    _check_size(file, size)
    while size:
        piece = file.read(min(size, PIECE))
        if not piece:
            raise EOFError(f"expected {size} more bytes")
        size -= len(piece)
