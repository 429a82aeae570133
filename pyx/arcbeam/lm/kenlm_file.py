"""KenLM's binary files, which KenLM maps: a change in place while a model is used is noticed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from arcbeam.core.errors import FormatError
from arcbeam.files._file_map import MapGuard
from arcbeam.files.watch import FileWatch, mapped_parts

MAGIC = b"mmap lm http://kheafield.com/code"
LONGEST_LINE = 1 << 16
COUNT = re.compile(rb"ngram[ \t]+([0-9]{1,9})[ \t]*=[ \t]*([0-9]{1,15})\s*")
Model = TypeVar("Model")


def is_binary(path: Path) -> bool:
    """Whether the file is in KenLM's binary format of any kind, not text."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def check_counts(text: Path, path: Path) -> None:
    """FormatError if the header of an ARPA (`text`) has more n-grams than fit: KenLM makes room for them at once."""
    size = text.stat().st_size
    with text.open("rb") as file:
        while (line := file.readline(LONGEST_LINE)) and b"-grams:" not in line:
            if not line.startswith(b"ngram "):
                continue
            found = COUNT.fullmatch(line)
            if found is None:
                raise FormatError(f"{path}: expected 'ngram ORDER=COUNT', got {line[:60].decode(errors='replace')!r}")
            order, count = int(found[1]), int(found[2])
            # The shortest line has a number of one digit, words of one character, the separators and the line's end.
            most = (size + 1) // (2 * (order + 1))
            if count > most:
                raise FormatError(
                    f"{path}: expected at most {most} n-grams of order {order}, which is all that {size} bytes "
                    f"can hold, got {count}"
                )


class WatchedFile:
    """A file that `load` maps in the library. If it shrinks, the lost part reads as zeros; `check` finds that."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first = os.stat(path)
        self._watch = FileWatch(path, self._first)
        self._guards: dict[int, MapGuard] = {}  # by address

    def load(self, load: Callable[[], Model]) -> Model:
        """Returns the result of `load`; from now on the parts of the file that it maps are guarded."""
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
        """FormatError if the file has been changed in place since: its content may now be anything."""
        what = self._watch.change(next(iter(self._guards), None))
        if what is None and not any(guard.is_broken for guard in self._guards.values()):
            return
        what = "was changed" if what is None else what.removesuffix(" in place")
        raise FormatError(f"{self._path}: the file {what} while KenLM had it mapped; load it again")
