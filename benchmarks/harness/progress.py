"""How far a run is, on stderr: lines that stay, and on a terminal a line that is overwritten."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


def _line(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _nothing(text: str) -> None:
    pass


@dataclass(frozen=True)
class Progress:
    """`say` a line that stays; `step` says what is being done right now, where somebody looks."""

    say: Callable[[str], None] = field(default=_line)
    step: Callable[[str], None] = field(default=_nothing)


@contextmanager
def display() -> Iterator[Progress]:
    """A spinner with the time that has passed, if stderr is a terminal and rich is there; else lines alone."""
    try:
        if not sys.stderr.isatty():
            raise ModuleNotFoundError
        from rich.console import Console
    except ModuleNotFoundError:
        yield Progress()
        return
    console = Console(stderr=True, highlight=False)
    began = time.monotonic()
    with console.status("") as status:

        def step(text: str) -> None:
            status.update(f"{time.monotonic() - began:6.0f} s  {_plain(text)}")

        yield Progress(lambda text: console.print(f"  {_plain(text)}"), step)


def _plain(text: Any) -> str:
    """Square brackets are not rich's markup."""
    return str(text).replace("[", "\\[")
