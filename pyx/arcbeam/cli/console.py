"""Code that all commands share for the terminal: notes and progress, on stderr, and exit codes for errors.

0 success, 1 error, 2 usage or a missing package, 130 interrupted, 141 the reader of stdout has gone, 143 terminated.
"""

import difflib
import functools
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import typer

from arcbeam.cli.number_options import parse_numbers
from arcbeam.core.errors import ArcbeamError

ERROR, INTERRUPTED, BROKEN_PIPE, TERMINATED = 1, 130, 141, 143
BETWEEN_LINES = 10.0
"""Seconds between two lines of progress where there is no terminal."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Failure(Exception):
    """An error of the command itself; its message is everything that the user needs."""


class Terminated(KeyboardInterrupt):
    """A signal to end, as Ctrl-C sends it, from a scheduler or from whatever stops a container."""


def note(message: str) -> None:
    """Print a line for the reader at the terminal, apart from the results."""
    sys.stderr.write(message + "\n")  # at once, because the thread that shows the progress writes, too
    sys.stderr.flush()


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
    """Turn every failure of a command into one line on stderr and an exit code, and every warning into a note."""
    parse_numbers(command)

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with warnings.catch_warnings(), _told_to_end():
                warnings.showwarning = _note_warning
                result = command(*args, **kwargs)
            sys.stdout.flush()
            return result
        except (typer.Exit, typer.Abort, typer.BadParameter):
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
            note(f"error: {explain(error)}")
            raise typer.Exit(ERROR) from None

    return run  # type: ignore[return-value]


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
def progress(what: str, count: Callable[[], int | None], things: str = "utterances") -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr if that is a terminal, else a line every ten seconds; yields ``update(done)``."""
    if not sys.stderr.isatty():
        with _lines(what, count, things) as update:
            yield update
        return
    from rich import progress as bar
    from rich.console import Console

    columns = (bar.TextColumn("{task.description}"), bar.BarColumn(), bar.MofNCompleteColumn(), bar.TimeElapsedColumn())
    with bar.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(what, total=count())
        yield lambda done: display.update(task, completed=done)


@contextmanager
def _lines(what: str, count: Callable[[], int | None], things: str) -> Iterator[Callable[[int], None]]:
    """Tells the progress in lines, by a thread, because a batch may take longer than they are apart."""
    done, began, over = 0, time.monotonic(), threading.Event()

    def tell() -> None:
        of, is_counted = "", False
        while not over.wait(BETWEEN_LINES):
            if not is_counted:
                with suppress(OSError, ArcbeamError):  # which whoever reads the files raises as well
                    of = "" if (total := count()) is None else f" of {total}"
                is_counted = True
            if not over.is_set():
                note(f"{what}: {done}{of} {things}, {done / (time.monotonic() - began):.1f} a second")

    def update(now: int) -> None:
        nonlocal done
        done = now

    threading.Thread(
        target=tell, name="arcbeam-progress", daemon=True
    ).start()  # not waited for: counting may take long
    try:
        yield update
    finally:
        over.set()
