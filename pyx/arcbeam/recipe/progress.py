"""Reports the progress of a build: a line on stderr, or a call of the caller's own function."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

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
    """

    stage: str
    message: str
    seconds: float


Progress = Callable[[BuildEvent], None]


def print_event(event: BuildEvent) -> None:
    """Write an event to stderr: seconds, stage, message."""
    print(f"[{event.seconds:7.1f} s] {event.stage}: {event.message}", file=sys.stderr, flush=True)


class Reporter:
    """Adds the time to events and passes them on: to stderr for None, to nothing for False."""

    def __init__(self, progress: Progress | bool | None = None) -> None:
        self._progress = None if progress is False else print_event if progress in (None, True) else progress
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the build began."""
        return time.monotonic() - self._begin

    def say(self, stage: str, message: str) -> None:
        """Report one line about a step."""
        if callable(self._progress):
            self._progress(BuildEvent(stage, message, self.seconds))


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
