"""KenLM's binary files, which KenLM maps: what is changed in place while a model lives is noticed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from arcbeam._file_map import MapGuard
from arcbeam.errors import FormatError
from arcbeam.file_watch import FileWatch, mapped_parts

MAGIC = b"mmap lm http://kheafield.com/code"
Model = TypeVar("Model")


def is_binary(path: Path) -> bool:
    """Whether the file is KenLM's binary format of any kind, not text to be read."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class WatchedFile:
    """A file that `load` maps in the library. Should it shrink, what is lost reads as zeros; `check` finds that.

    A file that is replaced under its name leaves the mapped one as it was.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first = os.stat(path)
        self._watch = FileWatch(path, self._first)
        self._guards: dict[int, MapGuard] = {}  # by address

    def load(self, load: Callable[[], Model]) -> Model:
        """What `load` returns; the parts of the file that it maps are guarded from now on."""
        before = self._parts()
        model = load()
        self._guards = {begin: MapGuard(begin, end - begin) for begin, end in sorted(self._parts() - before)}
        return model

    def _parts(self) -> set[tuple[int, int]]:
        """The addresses at which this process maps the file."""
        device = f"{os.major(self._first.st_dev):02x}:{os.minor(self._first.st_dev):02x}"
        where = (device, self._first.st_ino)
        return {(part.begin, part.end) for part in mapped_parts() if (part.device, part.inode) == where}

    def check(self) -> None:
        """FormatError if the file has been changed in place since: what is read now may be anything."""
        what = self._watch.change(next(iter(self._guards), None))
        if what is None and not any(guard.is_broken for guard in self._guards.values()):
            return
        what = "was changed" if what is None else what.removesuffix(" in place")
        raise FormatError(f"{self._path}: the file {what} while KenLM had it mapped; load it again")
