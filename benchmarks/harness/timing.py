"""Interleaved timing: contenders take turns, so that what disturbs the machine disturbs all of them.

Figures are medians over the repeats; a ratio is taken within each repeat, and its median, smallest and largest value
are reported.

Python's collector walks over all objects of a process, those of every contender, in the turn of the one that happens to
call for it: a second, where a decoder in Python takes a tenth. What was there before the turns is kept from it.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds of each repeat: on the clock, and of processor time."""

    wall: list[float]
    cpu: list[float]

    @property
    def seconds(self) -> float:
        return statistics.median(self.wall)

    def spread(self) -> list[float]:
        return [min(self.wall), max(self.wall)]


@contextmanager
def own_garbage() -> Iterator[None]:
    """Within it Python collects only what is made there: a turn pays for its own garbage, not for others' objects.

    What was frozen before stays so: an outer call, or a session of tests, pays for it no more either.
    """
    is_outermost = gc.get_freeze_count() == 0
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if is_outermost:
            gc.unfreeze()


@contextmanager
def no_garbage() -> Iterator[None]:
    """Within it Python collects nothing, and a thread that wants to run waits at most half a millisecond for another.

    For what is measured chunk by chunk: one walk of the collector, or the 5 ms for which Python lets a thread go on,
    would be the latency of the chunks that come meanwhile.
    """
    before = sys.getswitchinterval()
    with own_garbage():
        gc.disable()
        sys.setswitchinterval(5e-4)
        try:
            yield
        finally:
            sys.setswitchinterval(before)
            gc.enable()


def interleave(
    contenders: Mapping[str, Callable[[], object]],
    repeats: int,
    warm_up: bool = True,
    before: int = 0,
    step: Callable[[str], None] = lambda text: None,
) -> dict[str, Timing]:
    """Runs every contender ``repeats`` times in turn, after one untimed turn; ``step`` is told whose turn it is.

    before : untimed runs of a contender in each of its turns, where what the others leave behind would be measured
    """
    timings = {name: Timing([], []) for name in contenders}
    with own_garbage():
        if warm_up:
            for name, run in contenders.items():
                step(f"warming up {name}")
                run()
        for repeat, name in turns(contenders, repeats):
            run = contenders[name]
            step(f"{name}, turn {repeat + 1} of {repeats}")
            for _ in range(before):
                run()
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            timings[name].wall.append(time.perf_counter() - wall)
            timings[name].cpu.append(time.process_time() - cpu)
    return timings


def turns(names: Iterable[str], repeats: int) -> Iterator[tuple[int, str]]:
    """Whose turn it is, with the number of the repeat: everybody once a repeat, backwards in every other one."""
    order = list(names)
    for repeat in range(repeats):
        for name in order if repeat % 2 == 0 else reversed(order):
            yield repeat, name


def ms_spread(row: Mapping[str, Any]) -> list[float] | None:
    """Smallest and largest milliseconds, of a row that holds the turns themselves."""
    wall = row.get("wall")
    return [1e3 * min(wall), 1e3 * max(wall)] if wall else None


def rtfx_spread(row: Mapping[str, Any]) -> list[float] | None:
    """Smallest and largest RTFx, of a row that holds the median's and the turns themselves."""
    wall = row.get("wall")
    if not wall:
        return None
    seconds = row["rtfx"] * statistics.median(wall)
    return [seconds / max(wall), seconds / min(wall)]


def ratio(slow: Timing, fast: Timing) -> tuple[float, list[float]]:
    """How many times less clock time ``fast`` took: median and [smallest, largest] over the repeats."""
    each = [s / f for s, f in zip(slow.wall, fast.wall, strict=True)]
    return statistics.median(each), [min(each), max(each)]


def cpu_ratio(slow: Timing, fast: Timing) -> float:
    """The same of processor time, which a busy machine disturbs less."""
    return statistics.median(s / f for s, f in zip(slow.cpu, fast.cpu, strict=True))
