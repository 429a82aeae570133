"""Compiles the files of all extensions in parallel, skips those that are unchanged, and shows the progress.

An object is kept while its command stays the same and no file that it includes (``-MMD``) is newer. It has the time
when its compiler was started, so that a file that changes meanwhile is newer.
"""

import hashlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECONDS_A_LINE = 15  # where standard error is no terminal


def compile_unless_fresh(made: str, command: Sequence[str], compile_it: Callable[[list[str]], None]) -> None:
    """Calls ``compile_it`` with further flags unless the object ``made`` is newer than its files and of ``command``."""
    record, listed = f"{made}.json", f"{made}.d"
    signature = hashlib.sha256("\0".join(command).encode()).hexdigest()
    if _is_fresh(made, record, signature):
        return
    Path(record).unlink(missing_ok=True)
    began = time.time_ns()
    compile_it(["-MMD", "-MF", listed])
    os.utime(made, ns=(began, began))
    inputs = [name.replace("\\ ", " ") for name in _inputs(Path(listed).read_text())]
    Path(record).write_text(json.dumps({"command": signature, "inputs": inputs}))


def _inputs(rule: str) -> list[str]:
    """The files after the colon of a rule of make."""
    return re.findall(r"(?:\\ |\S)+", rule.replace("\\\n", " ").split(": ", 1)[1])


def _is_fresh(made: str, record: str, signature: str) -> bool:
    try:
        known = json.loads(Path(record).read_text())
        when = os.stat(made).st_mtime_ns
        return known["command"] == signature and all(os.stat(name).st_mtime_ns <= when for name in known["inputs"])
    except (OSError, ValueError, KeyError):
        return False


def compile_all(files: Iterable[str], compile_one: Callable[[str], None], workers: int) -> None:
    """Calls ``compile_one`` for every file on ``workers`` threads; after a failure no more are begun."""
    files = list(files)
    progress = _Progress(len(files))
    with ThreadPoolExecutor(workers) as pool:
        try:
            for _ in pool.map(lambda name: progress.around(compile_one, name), files):
                pass
        finally:
            progress.end()


class _Progress:
    """Counts files: one line that is written over on a terminal, else a line now and then."""

    def __init__(self, count: int):
        self._count, self._done = count, 0
        self._failed = False
        self._terminal = sys.stderr.isatty()
        self._began = self._said = time.monotonic()
        self._lock = threading.Lock()

    def around(self, compile_one: Callable[[str], None], name: str) -> None:
        if self._failed:
            return
        try:
            compile_one(name)
        except BaseException:
            self._failed = True
            raise
        with self._lock:
            self._done += 1
            self._tell(name)

    def _tell(self, name: str) -> None:
        now = time.monotonic()
        text = f"compiled {self._done} of {self._count} files"
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text}: {name}")
            sys.stderr.flush()
        elif now - self._said >= SECONDS_A_LINE:
            self._said = now
            print(f"{text} in {now - self._began:.0f} s", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
        elapsed = time.monotonic() - self._began
        if elapsed >= 1:
            print(f"compiled {self._done} of {self._count} files in {elapsed:.0f} s", file=sys.stderr, flush=True)
