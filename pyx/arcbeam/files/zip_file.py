"""Reads the members of a zip archive from anywhere: never more than a budget allows, whatever the archive claims."""

from __future__ import annotations

import os
import zipfile
from typing import IO, Self

from arcbeam.core.errors import FormatError
from arcbeam.files.reading import Budget

PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others take as much memory as the archive says


class ZipMembers:
    """The members of an archive, read within `reading` and counted by `budget`; `size` is that of the file."""

    def __init__(self, file: str | os.PathLike[str] | IO[bytes], size: int, budget: Budget) -> None:
        self._archive = zipfile.ZipFile(file)
        self._size = size
        self._budget = budget
        self.names = self._archive.namelist()
        self._known = frozenset(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def read(self, name: str) -> bytes:
        """The content of a member."""
        file, size = self.open(name)
        with file:
            return read_exactly(file, size, name)

    def open(self, name: str) -> tuple[IO[bytes], int]:
        """A member, to be read from its beginning, and its size; whoever reads it to its end learns of damage."""
        if name not in self:
            raise FormatError(f"expected {name} in the archive, got none")
        info = self._archive.getinfo(name)
        if info.compress_type not in PACKINGS:
            raise FormatError(f"{name}: expected a member that is stored or deflated")
        if info.compress_size > self._size:
            raise FormatError(f"{name}: expected at most {self._size} bytes in the archive, got {info.compress_size}")
        self._budget.take(info.file_size)
        return self._archive.open(info), info.file_size

    def close(self) -> None:
        """Closes the archive, and the file if it was opened here."""
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_exactly(file: IO[bytes], size: int, name: str) -> bytes:
    """So many bytes of a member; FormatError if it has fewer."""
    # zipfile believes the sizes in the archive, and allocates as much memory. Without a size to read, it decompresses
    # up to two gigabytes before it checks the sizes.
    content = file.read(size)
    if len(content) != size:
        raise FormatError(f"{name}: expected {size} bytes, got {len(content)}")
    return content
