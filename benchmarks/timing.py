"""Interleaved timing: contenders take turns, so that what disturbs the machine disturbs all of them.

Figures are medians over the repeats; a ratio is taken within each repeat, and its median, smallest and largest value
are reported.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


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
    if warm_up:
        for name, run in contenders.items():
            step(f"warming up {name}")
            run()
    timings = {name: Timing([], []) for name in contenders}
    for repeat in range(repeats):
        order = list(contenders.items())
        for name, run in order if repeat % 2 == 0 else reversed(order):
            step(f"{name}, turn {repeat + 1} of {repeats}")
            for _ in range(before):
                run()
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            timings[name].wall.append(time.perf_counter() - wall)
            timings[name].cpu.append(time.process_time() - cpu)
    return timings


def ratio(slow: Timing, fast: Timing) -> tuple[float, list[float]]:
    """How many times less clock time ``fast`` took: median and [smallest, largest] over the repeats."""
    each = [s / f for s, f in zip(slow.wall, fast.wall, strict=True)]
    return statistics.median(each), [min(each), max(each)]


def cpu_ratio(slow: Timing, fast: Timing) -> float:
    """The same of processor time, which a busy machine disturbs less."""
    return statistics.median(s / f for s, f in zip(slow.cpu, fast.cpu, strict=True))
