"""Reads the members of a zip archive from anywhere: never more than a budget allows, whatever the archive claims."""

from __future__ import annotations

import os
import zipfile
from typing import IO, Self

from arcbeam.errors import FormatError
from arcbeam.files.reading import Budget

PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others take as much memory as the archive says


class ZipMembers:
    """The members of an archive; to be used within `arcbeam.files.reading.reading`.

    Parameters
    ----------
    file : path, or file object that can seek
    size : int
        Bytes of the file.
    budget : Budget
        The limit of everything that is read from it.

    Attributes
    ----------
    names : list of str
        In the order of the archive.
    """

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
        if name not in self:
            raise FormatError(f"expected {name} in the archive, got none")
        info = self._archive.getinfo(name)
        if info.compress_type not in PACKINGS:
            raise FormatError(f"{name}: expected a member that is stored or deflated")
        # zipfile believes the sizes in the archive, and allocates as much memory. Without a size to read, it
        # decompresses up to two gigabytes before it looks at the sizes.
        if info.compress_size > self._size:
            raise FormatError(f"{name}: expected at most {self._size} bytes in the archive, got {info.compress_size}")
        self._budget.take(info.file_size)
        with self._archive.open(info) as file:
            content = file.read(info.file_size)
        if len(content) != info.file_size:
            raise FormatError(f"{name}: expected {info.file_size} bytes, got {len(content)}")
        return content

    def close(self) -> None:
        """Closes the archive, and the file if it was opened here."""
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
