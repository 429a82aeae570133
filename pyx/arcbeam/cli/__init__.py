"""The ``arcbeam`` command. Its packages (extra ``cli``) are imported when it runs, not with arcbeam.

May import: cli/transcribe, core, ctc, files, jobs, report.
"""

import errno
import io
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

#: Packages that every command needs. The commands that use jiwer or kaldiio check for these themselves.
REQUIRED = ("typer", "rich")
MISSING = "error: the arcbeam command needs the package {package}, which is not installed: pip install typer rich"
INTERRUPTED = 130
ERROR = 1


def main() -> None:
    """Run the command line and exit: 0 for success, 1 for an error reported in one line, 2 usage, 130 interrupted."""
    _replace_closed_streams()
    try:
        for package in REQUIRED:
            try:
                import_module(package)
            except ModuleNotFoundError:
                print(MISSING.format(package=package), file=sys.stderr)
                raise SystemExit(ERROR) from None
        from arcbeam.cli.app import app

        app(prog_name="arcbeam")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OSError as error:  # of the stream that --help or --version writes to
        from arcbeam.cli.console import explain

        raise SystemExit(f"error: {explain(error)}") from None


class _Closed(io.RawIOBase):
    """A standard stream that is closed, whose use is an error that says what to type."""

    def __init__(self, name: str, typed: str) -> None:
        why = f"expected a file, a pipe or a terminal, got a closed stream; type {typed}"
        self._error = OSError(errno.EBADF, why, name)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> NoReturn:
        raise self._error

    def write(self, data: Any, /) -> NoReturn:
        raise self._error


def _replace_closed_streams() -> None:
    """Put a stream in the place of each that is closed, for which Python has None; messages are then lost."""
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(_Closed("standard input", "<FILE"), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed("standard output", ">FILE"), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        os.dup2(sys.stderr.fileno(), 2)  # libraries write there, and a file of the command could have this number
