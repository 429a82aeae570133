"""Contenders in processes of their own: answers, failures of every kind, and who begins anew."""

import os
import signal
import time

import pytest

from benchmarks.adapters.gpu import ChildFailed
from benchmarks.tasks.workers import MOST_STARTS, Troupe, Worker


class Contender:
    def __init__(self, scale):
        if scale < 0:
            raise ValueError("a scale below 0")
        self.scale = scale

    def times(self, value):
        return self.scale * value

    def process(self):
        return os.getpid()

    def dies(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def sleeps(self):
        time.sleep(60)


def made(scale, **options):
    worker = Worker(Contender, (scale,), **options)
    assert worker.answer() is None
    return worker


def test_calls_are_answered_in_order():
    worker = made(3)
    worker.send("times", 2)
    worker.send("times", 5)
    assert (worker.answer(), worker.answer()) == (6, 15)
    worker.send("process")
    assert worker.answer() == worker.child.pid != os.getpid()
    worker.close()
    assert worker.child.exitcode == 0


@pytest.mark.parametrize(
    ("method", "limit_s", "words"),
    [("unknown", 20, "no attribute 'unknown'"), ("dies", 20, "ended with -9"), ("sleeps", 0.1, "no answer in 0.1 s")],
)
def test_failures_are_told_and_leave_no_process(method, limit_s, words):
    worker = made(1)
    worker.limit_s = limit_s
    worker.send(method)
    with pytest.raises(ChildFailed, match=words):
        worker.answer()
    assert not worker.child.is_alive()
    worker.send("times", 2)
    with pytest.raises(ChildFailed):
        worker.answer()


def test_a_troupe_goes_on_without_those_that_break():
    troupe = Troupe({name: (Contender, (scale,)) for name, scale in {"a": 1, "b": 2, "never": -1}.items()})
    troupe.start(troupe.made)
    assert set(troupe.broken) == {"never"} and troupe.broken["never"].startswith("ValueError: a scale below 0\nTrace")
    processes = troupe.together(troupe.made, "process")
    assert len({os.getpid(), *processes.values()}) == 3
    assert troupe.in_turn(["b", "never", "a"], "times", 4) == {"b": 8, "a": 4}
    assert troupe.together(["b"], "dies") == {}
    assert troupe.together(troupe.made, "times", 5) == {"a": 5} and "-9" in troupe.broken["b"]
    troupe.start(["b"])
    assert troupe.together(troupe.made, "times", 5) == {"a": 5, "b": 10} and "b" not in troupe.broken
    assert troupe.in_turn(["b"], "dies") == {}
    troupe.start(troupe.made)
    assert set(troupe.workers) == {"a"} and set(troupe.broken) == {"b", "never"}
    assert troupe.starts == {"a": 1, "b": MOST_STARTS, "never": MOST_STARTS}
    troupe.close()
