"""Files that a library of others opens by their names."""

import errno
import os
import stat


def check_is_file(path: str | os.PathLike[str]) -> None:
    """Raises what opening a path would, before a library is given it.

    Raises
    ------
    FileNotFoundError, IsADirectoryError, OSError
        There is no such file, it is a folder, or no regular file; ``errno`` and ``filename`` say so.
    """
    name = os.fspath(path)
    mode = os.stat(name).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "expected a regular file", name)
