"""Text files, line by line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from arcbeam.errors import FormatError


def read_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Lines of a UTF-8 file with their numbers from 1; only a line feed ends a line, as symbols may hold the rest."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{path}, line {number}: expected UTF-8, got {error}") from None
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.removesuffix("\r")
