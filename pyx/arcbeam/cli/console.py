"""Code that all commands share for the terminal: exit codes for errors, notes, progress.

Results go to stdout and nothing else does; notes, summaries and progress go to stderr. Exit codes: 0 success, 1 an
error reported in one line, 2 usage (also a missing optional package), 130 interrupted, 141 the reader of our output has
gone.
"""

import difflib
import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer

from arcbeam.errors import ArcbeamError, MissingDependencyError

ERROR, USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

Command = TypeVar("Command", bound=Callable[..., Any])


class Failure(Exception):
    """An error of the command itself; its message is everything that the user needs."""


def note(message: str) -> None:
    """Print a line for the reader at the terminal, apart from the results."""
    print(message, file=sys.stderr, flush=True)


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
        there = os.listdir(path.parent) if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there, 1, 0.75)
        return f"{error.strerror}" + (f"; is it {path.parent / near[0]}?" if near else "")
    return str(error.strerror)


def check_output(output: Path) -> None:
    """Fail on an output that cannot be written, before any work is done for it."""
    if not output.absolute().parent.is_dir():
        raise Failure(f"{output}: the folder does not exist")
    if output.is_dir():
        raise Failure(f"--output: expected the name of a file, got the folder {output}")


def guarded(command: Command) -> Command:
    """Turn every failure of a command into one line on stderr and an exit code, and every warning into a note.

    If the command has a ``debug`` argument, it asks for the traceback as well.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _note_warning
                result = command(*args, **kwargs)
            sys.stdout.flush()
            return result
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _silence_stdout()
            raise typer.Exit(BROKEN_PIPE) from None
        except Exception as error:
            if kwargs.get("debug"):
                traceback.print_exc()
            note(f"error: {explain(error)}")
            raise typer.Exit(USAGE if isinstance(error, MissingDependencyError) else ERROR) from None

    return run  # type: ignore[return-value]


def _note_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Python calls this with a warning. A line of the program's source would not help a user at the terminal."""
    note(f"note: {message}" if category is UserWarning else f"{category.__name__}: {message}")


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the flush at exit does not complain a second time."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass


@contextmanager
def progress(what: str, count: Callable[[], int | None]) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr if that is a terminal, else nothing.

    Yields ``update(done)``. `count` returns the total, or None if it is not known; it is only called if there is a bar.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich import progress as bar
    from rich.console import Console

    columns = (bar.TextColumn("{task.description}"), bar.BarColumn(), bar.MofNCompleteColumn(), bar.TimeElapsedColumn())
    with bar.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(what, total=count())
        yield lambda done: display.update(task, completed=done)
