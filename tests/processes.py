"""Calls that Ctrl-C interrupts, and calls in a forked child."""

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
