"""Files that appear when they are complete."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any


@contextmanager
def beside(path: str | os.PathLike[str], partial: str | None = None) -> Iterator[str]:
    """The name of a file to write, which gets the name `path` when all went well: until then that is what it was.

    An error removes the file. With `partial`, which is its name then, the file stays, unless it is empty. What is no
    regular file, such as a pipe or a device, keeps its place: its own name is the one to write to.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        Before anything is written: there is no such folder, or `path` is one.
    """
    given = os.fsdecode(path)
    if given.startswith(("/dev/", "/proc/")) or (os.path.exists(given) and not os.path.isfile(given)):
        if os.path.isdir(given):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), given)
        yield given
        return
    target = os.path.realpath(given)  # a link stays one
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), given)
    written = partial or os.path.join(folder, f".{name}.{secrets.token_hex(4)}.partial")
    try:
        yield written
        if os.path.exists(target):
            os.chmod(written, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(written, target)
    except BaseException:
        with suppress(OSError):
            if partial is None or os.path.getsize(written) == 0:
                os.unlink(written)
        raise


@contextmanager
def replacing(
    path: str | os.PathLike[str], mode: str = "wb", partial: str | None = None, **how: Any
) -> Iterator[IO[Any]]:
    """A file, open to be written, that gets the name `path` when it is complete: see `beside`."""
    with beside(path, partial) as name, open(name, mode, **how) as out:
        yield out
