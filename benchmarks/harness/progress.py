"""How far a run is, on stderr: lines that stay, and on a terminal a line that is overwritten."""

import sys
import time
from dataclasses import dataclass, field

WIDTH = 100


@dataclass(frozen=True)
class Progress:
    """`say` writes a line that stays; `step` says what is being done right now, on a terminal alone."""

    began: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        self._write(f"  {text}\n")

    def step(self, text: str) -> None:
        if sys.stderr.isatty():
            self._write(f"{time.monotonic() - self.began:6.0f} s  {text}"[:WIDTH])

    @staticmethod
    def _write(text: str) -> None:
        over = f"\r{' ' * WIDTH}\r" if sys.stderr.isatty() else ""
        print(f"{over}{text}", end="", file=sys.stderr, flush=True)
