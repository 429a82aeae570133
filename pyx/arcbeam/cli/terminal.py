"""What commands tell the reader at the terminal, on stderr: notes, errors and progress.

As a program of its own this module draws a spinner: the algebra of graphs holds the lock of the Python interpreter for
seconds, in which no thread of the command can draw.
"""

import itertools
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

BETWEEN_LINES = 10.0
"""Seconds between two lines of progress where there is no terminal."""
BETWEEN_FRAMES = 0.1
MOST_WAIT = 1.0
"""Seconds to wait for the thread of the progress, which may be counting what there is."""
CLEAR = "\r\x1b[2K"

NOTE, QUOTE = "note: ", "'"
KEYWORD = re.compile(
    r"(?<![^\s(])([a-z][a-z_]*)=('[^']*'|\d+(?:\.\d+)?|True|False|None|)(?=[,;:.)]*(?:\s|$))"
    r"(?: \((--[a-z-]+)\))?(?: to Graph\.load| when (?:it is loaded|(?:it|the decoder) is made))?"
)
"""An option of a function in a message, such as blank=, channel='mean', or pronunciations= (--boost-lexicon)."""

_drawing: list[subprocess.Popen[bytes]] = []  # the spinner on the last line of the terminal, if there is one
_options: dict[str, str] = {}  # of the command that runs, by the names of its parameters


@contextmanager
def options_of(command: Mapping[str, str]) -> Iterator[None]:
    """A context in which messages name the options of a command: as they are typed, by the names of its parameters."""
    before = dict(_options)
    _options.clear()
    _options.update(command)
    try:
        yield
    finally:
        _options.clear()
        _options.update(before)


def as_typed(message: str, *, is_of_file: bool = False) -> str:
    """A message of Python's functions with the options of the command line: "give blank=" becomes "give --blank".

    One that `is_of_file` begins with the name of a file, which may be that of an option.
    """

    def option(found: re.Match[str]) -> str:
        name, value, other = found.groups()
        typed = other or _options.get(name)
        if typed is None or value in ("True", "False"):
            return found[0] if typed is None else f"no {typed}" if value == "False" else typed
        value = "none" if value == "None" else value
        return f"{typed} {shlex.quote(value[1:-1]) if value.startswith(QUOTE) else value}".strip()

    if is_of_file:
        return KEYWORD.sub(option, message)
    label = NOTE if message.startswith(NOTE) else ""
    name, colon, rest = message.removeprefix(label).partition(": ")
    return KEYWORD.sub(option, f"{label}{_options.get(name, name)}{colon}{rest}")


def note(message: str) -> None:
    """Print a line for the reader at the terminal, apart from the results."""
    clear = CLEAR if _drawing else ""
    sys.stderr.write(f"{clear}{as_typed(message)}\n")  # at once, because what shows the progress writes, too
    sys.stderr.flush()


def tell_error(message: str, *, is_of_file: bool = False) -> None:
    """Print an error, whose label a terminal shows in red."""
    from rich.console import Console
    from rich.text import Text

    sys.stderr.flush()
    Console(stderr=True, soft_wrap=True).print(
        Text.assemble(("error:", "red"), f" {as_typed(message, is_of_file=is_of_file)}")
    )


def is_terminal() -> bool:
    """Whether stderr is a terminal on which a line can be written anew."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def steps(first: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with the name of a step and its seconds if stderr is a terminal; yields ``begin(next_step)``."""
    if not is_terminal() or _drawing:
        yield lambda name: None
        return
    drawer = _start_drawer()

    def begin(name: str) -> None:
        assert drawer.stdin is not None
        with suppress(OSError):  # whatever has ended it, the work goes on
            drawer.stdin.write(name.replace("\n", " ").encode() + b"\n")
            drawer.stdin.flush()

    _drawing.append(drawer)
    try:
        begin(first)
        yield begin
    finally:
        _drawing.clear()
        drawer.kill()
        drawer.communicate()
        sys.stderr.write(CLEAR)
        sys.stderr.flush()


def _start_drawer() -> "subprocess.Popen[bytes]":
    """The process that draws; Ctrl-C is for the command, which ends it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        return subprocess.Popen([sys.executable, "-S", "-E", __file__], stdin=subprocess.PIPE)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _draw() -> None:
    """Draws the step that was named last on the standard input, until that ends."""
    is_utf8 = "utf" in (sys.stderr.encoding or "").lower()
    name, began = "", 0.0
    for frame in itertools.cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if is_utf8 else "|/-\\"):
        if select.select([0], [], [], BETWEEN_FRAMES)[0]:
            if not (data := os.read(0, 1 << 16)):
                return
            name, began = data.decode().splitlines()[-1], time.monotonic()
        line = f"{frame} {name}, {time.monotonic() - began:.0f} s"
        shown = line[: shutil.get_terminal_size().columns - 1]
        os.write(2, (CLEAR + shown).encode(sys.stderr.encoding, "replace"))


@contextmanager
def progress(
    what: str,
    count: Callable[[], int | None],
    done: Callable[[], int],
    things: str = "utterances",
    say: Callable[[int | None], str] | None = None,
) -> Iterator[None]:
    """Show how many things are `done`: a bar on stderr if that is a terminal, else a line every ten seconds.

    All functions are called by a thread, because counting and a batch of the work may take long. `say` returns what is
    shown in place of numbers of things, by their total.
    """
    if not is_terminal():
        began, total = time.monotonic(), _Total(count)

        def tell() -> str:
            if say is not None:
                return f"{what}: {say(total())}"
            of = "" if (all_of_them := total()) is None else f" of {all_of_them:,}"
            now = done()
            return f"{what}: {now:,}{of} {things}, {now / (time.monotonic() - began):,.1f} a second"

        with _every(BETWEEN_LINES, tell):
            yield
        return
    from rich import progress as bar
    from rich.console import Console

    numbers = (bar.MofNCompleteColumn(), bar.TimeElapsedColumn())
    columns = (
        bar.SpinnerColumn(), bar.TextColumn("{task.description}"), bar.BarColumn(20 if say else 40),
        *(numbers if say is None else (bar.TextColumn("{task.fields[said]}"),)),
    )  # fmt: skip
    with bar.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task, total, most = display.add_task(what, total=None, said=""), _Total(count), 0

        def draw() -> None:
            nonlocal most
            most = max(most, done())
            said: dict[str, Any] = {} if say is None else {"said": say(total())}
            display.update(task, total=total(), completed=most, **said)

        with _every(BETWEEN_FRAMES, draw):
            yield


class _Total:
    """The number of all things, counted once; None if it is not known."""

    def __init__(self, count: Callable[[], int | None]) -> None:
        self._count: Callable[[], int | None] | None = count
        self._found: int | None = None

    def __call__(self) -> int | None:
        count, self._count = self._count, None
        if count is not None:
            with suppress(OSError, ValueError, ImportError):  # which whoever reads the files raises as well
                self._found = count()
        return self._found


@contextmanager
def _every(seconds: float, tell: Callable[[], str | None]) -> Iterator[None]:
    """A context in which a thread calls `tell` again and again, and notes what it returns."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            line = tell()
            if line is not None and not over.is_set():
                note(line)

    thread = threading.Thread(target=run, name="arcbeam-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(MOST_WAIT)  # a daemon that wakes up while the interpreter ends may abort the process


if __name__ == "__main__":
    _draw()
