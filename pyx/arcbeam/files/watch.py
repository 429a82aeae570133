"""Whether a mapped file is unchanged: found by its name, because a process may have few descriptors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple


class Part(NamedTuple):
    """A part of a file that this process maps, as the system reports it."""

    begin: int
    end: int
    device: str  # such as "fd:01", in hexadecimal
    inode: int
    name: str


def mapped_parts() -> Iterator[Part]:
    """Parts of files that this process maps; none if the system does not report them."""
    try:
        with open("/proc/self/maps", "rb") as lines:
            for line in lines:
                addresses, _, _, device, inode, *name = line.rstrip(b"\n").split(maxsplit=5)
                if inode != b"0" and name:
                    begin, end = (int(address, 16) for address in addresses.split(b"-"))
                    found = os.fsdecode(name[0].replace(rb"\012", b"\n"))
                    yield Part(begin, end, device.decode(), int(inode), found)
    except OSError:
        return


class FileWatch:
    """A file, known by its name when it was opened, and by the names that it is given afterwards."""

    # Once it has no name, because it was deleted or replaced, only a process that has it open can change it; if a part
    # of it is lost then, only the guard of its map notices.

    def __init__(self, path: str | os.PathLike[str], first: os.stat_result) -> None:
        self.path = os.path.abspath(path)
        self._first = first
        self._name: str | None = self.path

    def change(self, address: int | None) -> str | None:
        """The change to the file, as the end of a sentence, or None; a new name is found by the map's `address`."""
        now, first = self._now(address), self._first
        if now is None or (now.st_size, now.st_mtime_ns) == (first.st_size, first.st_mtime_ns):
            return None
        if now.st_size < first.st_size:
            return f"shrank from {first.st_size} to {now.st_size} bytes"
        return "was changed in place"

    def _now(self, address: int | None) -> os.stat_result | None:
        if self._name is None:
            return None
        try:
            found = self._called(self._name)
            if found is None:
                self._name = next((part.name for part in mapped_parts() if part.begin == address), None)
                found = None if self._name is None else self._called(self._name)
                self._name = None if found is None else self._name
        except OSError:  # it cannot be reached now, but perhaps later
            return None
        return found

    def _called(self, name: str) -> os.stat_result | None:
        """The file, if this is its name."""
        try:
            found = os.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found if os.path.samestat(found, self._first) else None
