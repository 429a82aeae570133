"""Files from anywhere: how a damaged one is reported, and how many bytes one may unpack to.

Every loader reads in :class:`reading`; whatever decompresses or copies counts its bytes with a :class:`Budget`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from arcbeam.core.errors import ArcbeamError, FormatError, GraphError
from arcbeam.core.sizes import as_bytes

if TYPE_CHECKING:
    import numpy as np

Kind: TypeAlias = type[BaseException] | None
Entries: TypeAlias = "Iterator[tuple[str, Callable[[], np.ndarray]]]"
"""Ids, and what reads their matrices, which is called before the next is taken, or not at all."""

EXPANSION = 20
"""A file may unpack to this many times its size, unless `max_bytes` says otherwise,"""
SMALL_BYTES = 32 << 20
"""or to this many bytes, if that is more."""
LONGEST_REASON = 300
"""The most characters of another library's message that ours quotes."""


def check_is_file(path: str | os.PathLike[str]) -> None:
    """Raises the error that opening a path would raise, before a library gets the path."""
    name = os.fspath(path)
    mode = os.stat(name).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "expected a regular file", name)


class naming:
    """A context that puts the name of a file in front of its FormatErrors and GraphErrors if they lack it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fsdecode(path)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Kind, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, (FormatError, GraphError)):
            error.name_file(self.name)


class reading(naming):
    """A context in which the content of a file is read: readers' errors become FormatErrors that name the file."""

    # No code of the caller may run in this context, neither functions nor checks of arguments. Errors that are no fault
    # of the content pass; a MemoryError too: sizes are checked before memory is allocated, so it really ran out.

    def __init__(self, path: str | os.PathLike[str], expected: str) -> None:
        super().__init__(path)
        self.expected = expected

    def __exit__(self, kind: Kind, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        if isinstance(error, Exception) and not _is_no_fault_of_the_content(error):
            raise FormatError(
                f"{self.name}: expected {self.expected}, got one that is damaged or cut short, or another file "
                f"({reason_of(error)})"
            ) from error
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, self.name) from error


def _is_no_fault_of_the_content(error: Exception) -> bool:
    if isinstance(error, OSError):
        # One of a module for compressed files has no number if it is not the system's; and a damaged archive may
        # send them to a place before the beginning of the file, which the system calls an invalid argument.
        return error.errno is not None and (error.errno != errno.EINVAL or error.filename is not None)
    return isinstance(error, (ArcbeamError, MemoryError, Warning))


def reason_of(error: BaseException) -> str:
    """The part of another library's exception that a message quotes: its type and its text, in one short line."""
    text = " ".join(str(error).split())
    text = text if len(text) <= LONGEST_REASON else text[:LONGEST_REASON] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Budget:
    """The limit of the bytes that a file may unpack to; by default 20 times its `size`, but at least 32 MiB."""

    def __init__(self, path: object, size: int, max_bytes: int | str | None = None) -> None:
        self.path = path
        self.size = size
        self.most = max(SMALL_BYTES, EXPANSION * size) if max_bytes is None else as_bytes("max_bytes", max_bytes)
        self._left = self.most

    def take(self, count: int, what: str = "content") -> None:
        """Counts bytes before memory is allocated for them; FormatError if that is more than the file may unpack to."""
        self._left -= count
        if self._left < 0:
            raise FormatError(
                f"{self.path}: expected at most {self.most:,} bytes of {what} from a file of {self.size:,} bytes, got "
                f"more; if you trust the file, raise max_bytes"
            )
