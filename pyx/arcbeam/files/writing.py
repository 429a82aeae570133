"""Files that appear under their names only when they are complete."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any


@contextmanager
def beside(path: str | os.PathLike[str], partial: str | None = None) -> Iterator[str]:
    """The name of a file to write, which is renamed to `path` if there is no error; until then `path` is unchanged.

    After an error the file is removed; but if `partial` is given, it has that name and stays, unless it is empty. If
    `path` is not a regular file but, for example, a pipe or a device, its own name is the one to write to.

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
    target = os.path.realpath(given)  # a link stays a link
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
