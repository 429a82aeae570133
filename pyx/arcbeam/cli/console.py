"""Code that all commands share around their work: errors in one line, warnings as notes, signals and exit codes.

0 success, 1 error, 2 usage, 3 success but for utterances that were left out, 130 interrupted, 141 the reader of stdout
has gone, 143 terminated.
"""

import difflib
import functools
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer

from arcbeam.cli.overwrites import check_overwrites
from arcbeam.cli.parameters import parse_values, typed_names
from arcbeam.cli.terminal import as_typed, note, options_of, tell_error
from arcbeam.core.errors import ArcbeamError, FormatError, InputWarning
from arcbeam.files.kinds import known_kind

NEAR = 0.75  # how alike a name is that a message offers instead of one that is not there
ERROR, INTERRUPTED, BROKEN_PIPE, TERMINATED = 1, 130, 141, 143

Command = TypeVar("Command", bound=Callable[..., Any])


class Failure(Exception):
    """An error of the command itself; its message is everything that the user needs."""


class Terminated(KeyboardInterrupt):
    """A signal to end, as Ctrl-C sends it, from a scheduler or from whatever stops a container."""


def version() -> str:
    """Return the version of arcbeam, even if it runs from its source folder."""
    from importlib import metadata

    try:
        return metadata.version("arcbeam")
    except metadata.PackageNotFoundError:
        return "(version unknown: it is not installed)"


def explain(error: BaseException) -> str:
    """Return an exception as one line."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {_why(error)}"
    elif isinstance(error, MemoryError) and not isinstance(error, ArcbeamError):
        text = f"out of memory: {error}" if str(error) else "out of memory"
    elif isinstance(error, (ArcbeamError, Failure, ValueError, OSError)):
        text = str(error) or type(error).__name__
    else:
        text = f"this should not have happened, please report it: {type(error).__name__}: {error} (--debug shows where)"
    return " ".join(text.split())


def _why(error: OSError) -> str:
    if isinstance(error, IsADirectoryError):
        return "expected a file, got a folder"
    if isinstance(error, FileNotFoundError):
        path = Path(os.fsdecode(error.filename))
        if not path.parent.is_dir():
            return f"the folder {path.parent} does not exist"
        there = os.listdir(path.parent) if path.parent.is_dir() else []
        # Names of four letters and the same suffix are alike as a whole, so what is before the suffix has to be, too.
        by_stem = {Path(name).stem: name for name in difflib.get_close_matches(path.name, there, 9, NEAR)}
        near = difflib.get_close_matches(path.stem, by_stem, 1, NEAR)
        return f"{error.strerror}" + (f"; is it {path.parent / by_stem[near[0]]}?" if near else "")
    return str(error.strerror)


def check_output(output: Path, kind: str | None = None) -> None:
    """Fail on an output that cannot be written, or is a file of a known other kind, before any work is done for it."""
    if not output.absolute().parent.is_dir():
        raise Failure(f"{output}: the folder does not exist")
    if output.is_dir():
        raise Failure(f"--output: expected the name of a file, got the folder {output}")
    if kind is not None and output.is_file():
        with output.open("rb") as file:
            there = known_kind(file.read(512))
        if there is not None and not there.startswith(kind):
            raise Failure(f"--output: expected a new file or {kind}, got {output}, which is {there}; name another file")


def guarded(command: Command) -> Command:
    """Turn every failure of a command into one line on stderr and an exit code, and every warning into a note."""
    parse_values(command)
    names = typed_names(command)

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with warnings.catch_warnings(), _told_to_end():
                warnings.showwarning = _note_warning
                check_overwrites(kwargs)
                result = command(*args, **kwargs)
            sys.stdout.flush()
            return result
        except typer.BadParameter as error:
            error.message = as_typed(error.message)
            raise
        except (typer.Exit, typer.Abort):
            raise
        except Terminated:
            raise typer.Exit(TERMINATED) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _silence_stdout()
            raise typer.Exit(BROKEN_PIPE) from None
        except Exception as error:
            if kwargs.get("debug"):
                traceback.print_exc()
            tell_error(explain(error), is_of_file=isinstance(error, (OSError, FormatError)))
            raise typer.Exit(ERROR) from None

    @functools.wraps(command)
    def named(*args: Any, **kwargs: Any) -> Any:
        with options_of(names):
            return run(*args, **kwargs)

    return named  # type: ignore[return-value]


@contextmanager
def _told_to_end() -> Iterator[None]:
    """A context in which SIGTERM raises `Terminated`, once: what it interrupts may clean up."""
    is_free = (
        threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not is_free:
        yield
        return

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _note_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Python calls this with a warning. A line of the program's source would not help a user at the terminal."""
    note(f"note: {message}" if category in (UserWarning, InputWarning) else f"{category.__name__}: {message}")


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the flush at exit does not complain a second time."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
