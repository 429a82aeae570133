"""Calls that Ctrl-C interrupts, calls in a forked child or in threads, and the threads that a call starts."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest


def interrupted(call: Callable[[], Any], after: float = 0.15) -> None:
    """Lets Ctrl-C come so many seconds after the call has begun; the call has to end with it."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
        time.sleep(30)  # should the machine be so fast that the call ended first
    timer.join()


def of_a_child(call: Callable[[], Any]) -> Any:
    """What the call returns in a forked child, which then has to end well."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put(call()))
    child.start()
    try:
        found = queue.get(timeout=60)
        child.join(timeout=60)
        assert child.exitcode == 0
    finally:
        child.kill()
    return found


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls return, each in a thread of its own; the first error is raised when all threads have ended."""
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(at: int) -> None:
        try:
            results[at] = calls[at]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


class NewThreads:
    """The threads that this process has started since this was made (Linux).

    The kernel lists a thread in /proc for a moment after it was joined, so a count is given the time to become right.
    """

    def __init__(self) -> None:
        self._before = self._ids()

    @staticmethod
    def _ids() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    def become(self, number: int, seconds: float = 10.0) -> bool:
        """Whether their number is this one, at the latest after so many seconds."""
        end = time.monotonic() + seconds
        while len(self._ids() - self._before) != number:
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True
