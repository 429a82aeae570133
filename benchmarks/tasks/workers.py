"""Contenders in processes of their own that take turns: one that breaks costs its own column, and no other.

After an illegal access a process can do nothing more on its device, and sharing a process may be the reason for one.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from benchmarks.adapters.gpu import ChildFailed
from benchmarks.tasks.answering import answer

LIMIT_S = 200  # of one call
MOST_STARTS = 2  # of a contender that breaks


def _serve(parents: Any, pipe: Any, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    parents.close()
    answer(pipe, lambda: make(*arguments))


class Worker:
    """What ``make(*arguments)`` gives, in a forked child. This process must not have used CUDA.

    Calls are sent and answered apart, so that several workers can be busy at a time. The first answer is that of
    ``make``, None. After a ChildFailed the child is gone.
    """

    def __init__(self, make: Callable[..., Any], arguments: tuple[Any, ...], limit_s: float = LIMIT_S) -> None:
        context = multiprocessing.get_context("fork")
        self.limit_s = limit_s
        self.pipe, theirs = context.Pipe()
        self.child: Any = context.Process(target=_serve, args=(self.pipe, theirs, make, arguments))
        self.child.start()
        theirs.close()

    def send(self, method: str, *arguments: Any) -> None:
        with suppress(OSError):  # if it has ended, the answer says how
            self.pipe.send((method, arguments))

    def answer(self) -> Any:
        """Of the call that was sent first. Raises ChildFailed when the child raises, dies, or takes too long."""
        try:
            good, value = (
                self.pipe.recv() if self.pipe.poll(self.limit_s) else (False, f"no answer in {self.limit_s:g} s")
            )
        except (EOFError, OSError):
            self.child.join(10)
            good, value = False, f"the process ended with {self.child.exitcode}"
        if not good:
            self.close()
            raise ChildFailed(value)
        return value

    def close(self) -> None:
        with suppress(OSError):
            self.pipe.send(None)
        self.child.join(0.5)
        if self.child.is_alive():
            self.child.kill()
            self.child.join()
        self.pipe.close()


class Troupe:
    """Workers by name; ``broken`` has the last words of those that failed.

    made : what makes each, and its arguments
    """

    def __init__(self, made: Mapping[Any, tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
        self.made = made
        self.workers: dict[Any, Worker] = {}
        self.broken: dict[Any, str] = {}
        self.starts = dict.fromkeys(made, 0)

    def start(self, names: Iterable[Any]) -> None:
        """Begins those that are not there, all at a time; anew if they broke, but not for ever."""
        new = [name for name in names if name not in self.workers and self.starts[name] < MOST_STARTS]
        for name in new:
            self.starts[name] += 1
            self.broken.pop(name, None)
            self.workers[name] = Worker(*self.made[name])
        for name in new:
            self._answer(name)

    def together(self, names: Iterable[Any], method: str, *arguments: Any) -> dict[Any, Any]:
        """The answers of those that are there and do not break, busy at the same time."""
        requested = [name for name in names if name in self.workers]
        for name in requested:
            self.workers[name].send(method, *arguments)
        answers = {name: self._answer(name) for name in requested}
        return {name: answers[name] for name in requested if name in self.workers}

    def in_turn(self, names: Iterable[Any], method: str, *arguments: Any) -> dict[Any, Any]:
        """The same, one after the other."""
        found: dict[Any, Any] = {}
        for name in names:
            found |= self.together([name], method, *arguments)
        return found

    def _answer(self, name: Any) -> Any:
        try:
            return self.workers[name].answer()
        except ChildFailed as error:
            self.broken[name] = str(error)
            del self.workers[name]

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()
        self.workers.clear()
