"""Files that appear under their names only when they are complete, and that one process at a time writes.

Until then the content has another name, and is locked: what a killed process leaves is written anew by the next.
"""

import errno
import fcntl
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeAlias

from arcbeam.core.errors import FormatError

PARTIAL = ".partial"
Kept: TypeAlias = Callable[[int], int]
"""Of a file that is written on: how many of its so many bytes stay, once it is locked."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of file systems that have none


@contextmanager
def beside(path: str | os.PathLike[str], *, keep: bool = False, kept: Kept | None = None) -> Iterator[str]:
    """The name of a file to write, which becomes `path` if there is no error; that of a pipe or device stays."""
    # After an error the file is removed; with `keep` it is called PATH.partial and stays, unless it is empty. What an
    # earlier run has left there is lost, but for the bytes that are `kept`.
    given = os.fsdecode(path)
    if given.endswith(os.sep):  # the name of a folder, whether or not it exists
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), given)
    if given.startswith(("/dev/", "/proc/")) or (os.path.exists(given) and not os.path.isfile(given)):
        if os.path.isdir(given):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), given)
        yield given
        return
    target = os.path.realpath(given)  # a link stays a link
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), given)
    written = given + PARTIAL if keep else os.path.join(folder, f".{name}{PARTIAL}")
    lock = _locked(written, given, kept)
    try:
        yield written
        if os.path.exists(target):
            os.chmod(written, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(written, target)
    except BaseException:
        with suppress(OSError):
            if not keep or os.path.getsize(written) == 0:
                os.unlink(written)
        raise
    finally:
        os.close(lock)


def _locked(name: str, given: str, kept: Kept | None) -> int:
    """The descriptor of the file of this name, locked, and cut; `given` is what messages call it."""
    while True:
        # A link, which anybody may have laid in a folder that all may write to, would lead to another file.
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.EINVAL, "expected a regular file or none", name)
            _lock(file, name, given)
            if _is_called(name, file):
                os.ftruncate(file, 0 if kept is None else kept(os.fstat(file).st_size))
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # it was another process's, which has just completed or removed it


def _lock(file: int, name: str, given: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(
            errno.EWOULDBLOCK,
            f"another process is writing this file, as {name}; wait until it has ended, or write to another name",
            given,
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _is_called(name: str, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(name, follow_symlinks=False), os.fstat(file))
    except FileNotFoundError:
        return False


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """A context in which a file is written and nothing else is done: errors that do not name a file name this one."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        name = os.fsdecode(path)
        if error.errno is None:  # NumPy's, which say how much was written
            raise OSError(f"{name}: {error}") from error
        raise OSError(error.errno, error.strerror, name) from error


class _Writer(io.BufferedWriter):
    """A file that is written under one name, from its end on, and whose errors have another."""

    def __init__(self, written: str, path: str | os.PathLike[str]) -> None:
        super().__init__(io.FileIO(written, "a" if os.path.isfile(written) else "w"))
        self._path = path

    def write(self, data: Any, /) -> int:
        with writing(self._path):
            return super().write(data)

    def flush(self) -> None:
        with writing(self._path):
            super().flush()

    def close(self) -> None:
        with writing(self._path):
            super().close()


@contextmanager
def replacing(path: str | os.PathLike[str], *, kept: Kept | None = None) -> Iterator[BinaryIO]:
    """A file, open to be written, that gets the name `path` when it is complete: see `beside`."""
    with beside(path, keep=kept is not None, kept=kept) as name, _Writer(name, path) as out:
        yield out


@contextmanager
def replacing_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A file for text in UTF-8, whose lines end with a line feed, that gets its name when complete: see `replacing`."""
    with replacing(path) as out, io.TextIOWrapper(out, encoding="utf-8", newline="\n") as text:
        yield text


def file_in(folder: str | os.PathLike[str], name: str, ending: str) -> Path:
    """The file of an utterance in a folder; FormatError for an id that leads out of it."""
    path = Path(folder, f"{name}{ending}")
    if ".." in Path(name).parts or os.path.isabs(name):
        raise FormatError(f"{os.fsdecode(folder)}: expected ids that name files in this folder, got {name!r}")
    return path
