"""Text files, line by line."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import BEGINNING, begins_arpa, kind_of, not_text

MOST_OF_A_PIPE = 64 << 20
"""The most bytes that are read of what has no size, such as a pipe, which may never end."""
LONGEST_LINE = 1 << 16


def read_text(path: str | os.PathLike[str]) -> bytes:
    """The content of a text file."""
    with open(os.fspath(path), "rb") as file:  # not a number, which would be an open file's
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read()
        data = file.read(MOST_OF_A_PIPE + 1)
    if len(data) > MOST_OF_A_PIPE:
        raise FormatError(
            f"{os.fspath(path)}: expected a regular file, or at most {MOST_OF_A_PIPE:,} bytes of a pipe or a device, "
            "got more; write them to a file first"
        )
    return data


def refuse_arpa(path: str | os.PathLike[str], data: bytes) -> None:
    """FormatError for a text file that is an ARPA, whose lines would be errors of another kind of file."""
    if begins_arpa(data):
        raise FormatError(f"{os.fspath(path)}: expected another kind of text file, got {kind_of(data[:BEGINNING])}")


def read_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Lines of a UTF-8 file with their numbers from 1; only a line feed ends a line, as symbols may hold the rest."""
    data = read_text(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        got = kind_of(data) if error.start < 8 else not_text(data, error)
        raise FormatError(f"{path}, line {number}: expected text in UTF-8, got {got}") from None
    refuse_arpa(path, data)
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.removesuffix("\r")


def stream_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a list of files, which may be long, that are not empty, without white space around them; and numbers."""
    with open(path, encoding="utf-8-sig") as lines:
        try:
            for number, line in enumerate(iter(lambda: lines.readline(LONGEST_LINE), ""), 1):
                if len(line) == LONGEST_LINE:
                    raise FormatError(
                        f"{path}:{number}: expected lines of less than {LONGEST_LINE} characters, got more"
                    )
                if line := line.strip():
                    yield number, line
        except UnicodeDecodeError as error:
            with open(path, "rb") as file:
                got = not_text(file.read(64 << 10), error)
            raise FormatError(f"{path}: expected text in UTF-8, got {got}") from None


def located(name: str, of: Path) -> Path:
    """The file that the list `of` names: relative to the working folder, or else to that of the list."""
    there = of.parent / name
    return there if not os.path.exists(name) and there.exists() else Path(name)
