"""Reports the progress of a build: lines on stderr, or calls of the caller's own function."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from arcbeam.core.warn import warn

PATIENCE = 2.0  # seconds that a build may take without a word


@dataclass(frozen=True)
class BuildEvent:
    """The argument of a progress function.

    Attributes
    ----------
    stage : str
        Short name of the step: ``lexicon``, ``lm``, ``compose``, ``determinize``, ...
    message : str
        One line for people.
    seconds : float
        Time since the build began.
    is_begin : bool
        Whether the step begins now; otherwise the message says what it has made so far.
    """

    stage: str
    message: str
    seconds: float
    is_begin: bool = False

    def __str__(self) -> str:
        return f"[{self.seconds:7.1f} s] {self.stage}: {self.message}"


Progress = Callable[[BuildEvent], None]


def print_event(event: BuildEvent) -> None:
    """Write an event to stderr."""
    print(event, file=sys.stderr, flush=True)


class Reporter:
    """Adds the time to events and passes them on: to stderr for True, or for None if that is a terminal."""

    def __init__(self, progress: Progress | bool | None = None) -> None:
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise TypeError(f"progress: expected a function, a bool or None, got {type(progress).__name__}")
        if progress is None:
            progress = sys.stderr is not None and sys.stderr.isatty()
        self._progress = print_event if progress is True else progress
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the build began."""
        return time.monotonic() - self._begin

    def begin(self, stage: str, message: str) -> None:
        """Report that a step begins."""
        self._report(stage, message, is_begin=True)

    def say(self, stage: str, message: str) -> None:
        """Report what a step has made."""
        self._report(stage, message, is_begin=False)

    def tell(self, stage: str, message: str) -> None:
        """Report what the caller has to know: without a function that shows it, as a warning."""
        if callable(self._progress):
            self.say(stage, message)
        else:
            warn(message)

    def _report(self, stage: str, message: str, is_begin: bool) -> None:
        if callable(self._progress):
            self._progress(BuildEvent(stage, message, self.seconds, is_begin))


class OnTerminal:
    """A progress function of a context: on a terminal it prints events, those so far after two seconds of work."""

    def __init__(self) -> None:
        self._waiting: list[BuildEvent] | None = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._print_waiting)
        self._timer.daemon = True

    def __call__(self, event: BuildEvent) -> None:
        """Print the event, or keep it until two seconds are over."""
        with self._lock:
            if self._waiting is None:
                print_event(event)
            else:
                self._waiting.append(event)

    def _print_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, None
            print("arcbeam is building a graph", file=sys.stderr, flush=True)
            for event in waiting or ():
                print_event(event)

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
