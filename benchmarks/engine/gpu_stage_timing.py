"""Times the stages of the search on a GPU: one block, one frame, the clock cycles between a stage's barriers.

The frames are those of `benchmarks.engine.stage_timing`, by which the CPU's stages are timed: the last one of a search
on a random graph of the shape of a SentencePiece TLG, at two beams. What every stage makes is compared with the twin's
before it is timed.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters.gpu import Wrong
from benchmarks.engine import stage_ceilings, stage_timing
from benchmarks.engine.stage_kernel import KERNEL, SOURCE, STAGES, Frame, Layout, Made, StageKernel, Twin, compare
from benchmarks.harness.registry import Row

TURNS = 200


@dataclass(frozen=True)
class Case:
    """A beam, and where the search would make its frame."""

    beam: float
    max_active: int
    layout: Layout

    @property
    def name(self) -> str:
        return f"{self.beam:g} / {self.max_active:,}"


# Of 1,576 and 240 tokens: one has its table alone in shared memory, the other all of it. Of the last not all may leave.
CASES = (
    Case(stage_timing.BEAM, stage_timing.MAX_ACTIVE, Layout(shared=768, spilled=8192, room="mixed")),
    Case(14.0, 5_000, Layout(shared=768, spilled=8192, room="shared")),
    Case(stage_timing.BEAM, 500, Layout(shared=768, spilled=8192, room="mixed")),
)
THREADS = 512  # of a block


class Gpu:
    """The machine that kernels of single stages want: memory by name, and a stream."""

    def __init__(self, image: bytes | None = None, source: Path = SOURCE, kernel: str = KERNEL) -> None:
        from arcbeam.gpu import _cuda
        from arcbeam.gpu._launch import Module, Stream
        from arcbeam.gpu._memory import MemoryPool
        from benchmarks.engine.ceilings import compile_kernels

        self.context = _cuda.context_of(0)
        image = image or compile_kernels(_cuda.device_properties(0)["compute_capability"], source)
        self.function = Module(self.context, "stages", image).function(kernel)
        self.stream, self.pool = Stream(self.context), MemoryPool(self.context)
        self.memory: dict[str, tuple[Any, int]] = {}
        self.pinned: dict[str, Any] = {}
        self.seconds = 0.0  # of the last launch

    def put(self, name: str, array: npt.NDArray[Any]) -> int:
        from arcbeam.gpu._memory import DeviceBuffer

        buffer, _ = self.memory.get(name) or (DeviceBuffer(self.pool, self.stream, name), 0)
        self.memory[name] = buffer, array.nbytes
        buffer.resize(max(1, array.nbytes))
        buffer.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return int(buffer.address)

    def put_on_host(self, name: str, array: npt.NDArray[Any]) -> int:
        from arcbeam.gpu._memory import PinnedBuffer

        self.pinned[name] = buffer = PinnedBuffer(self.context)
        buffer.resize(max(1, array.nbytes))
        memory = np.frombuffer(buffer, np.uint8)
        memory[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return int(memory.ctypes.data)

    def get(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        buffer, size = self.memory[name]
        return np.frombuffer(buffer.read(size), dtype)

    def launch(self, parameter: bytes, threads: int, shared_bytes: int) -> None:
        from arcbeam.gpu._launch import Event, launch_kernel

        start, end = (Event(self.context, timed=True) for _ in range(2))
        start.mark(self.stream)
        launch_kernel(self.function, self.stream, parameter, blocks=1, threads=threads, shared_bytes=shared_bytes)
        end.mark(self.stream)
        if not end.reached(60_000):
            raise TimeoutError("the stages did not end within a minute")
        self.seconds = end.seconds_since(start)


@cache
def frame_and_answer(case: Case) -> tuple[Frame, Made]:
    """The last frame, and what the twin makes of it."""
    given = stage_timing.frame()
    twin = Twin(given.graph, beam=case.beam, max_active=case.max_active, blank=given.log_probs.shape[1] - 1)
    for row in given.log_probs[:-1]:
        twin.make(twin.frame(row))
    frame = twin.frame(given.log_probs[-1])
    answer = twin.make(frame)
    assert answer is not None
    return frame, answer


class TimedStages:
    """Stages that a machine runs."""

    machine: Any
    kernel: Any

    def seconds(self, turns: int = TURNS) -> dict[str, float]:
        """Of one call of each stage, by the device's clock, which the events of the launch set."""
        made = self.kernel.run(turns)
        tick = self.machine.seconds / made.all_cycles
        return {stage: cycles * tick / turns for stage, cycles in made.cycles.items()}


class GpuStages(TimedStages):
    """The stages of one frame on the GPU; raises Wrong unless they make what the twin's make."""

    def __init__(self, case: Case, machine: Any = None) -> None:
        frame, answer = frame_and_answer(case)
        self.machine = machine or Gpu()
        self.kernel = StageKernel(self.machine, frame, case.layout)
        self.made = self.kernel.run()
        try:
            compare(frame, self.made, answer)
        except AssertionError as error:
            raise Wrong(str(error)) from None
        self.items = items(frame, self.made)


def items(frame: Frame, made: Made) -> dict[str, tuple[int, str]]:
    """What each stage works through."""
    states = frame.graph.states
    leaving = frame.tokens["state"][frame.cutoff()[1]]
    arcs = states["first_arc"][leaving + 1].astype(np.int64) - states["first_emitting"][leaving]
    return {
        "cutoff": (len(frame.tokens), "tokens"),
        "expand": (int(arcs.sum()), "arcs leaving"),
        "recombine": (len(made.candidates), "candidates"),
        "closure": (len(made.frontier), "states"),
        "prune": (len(made.frontier), "survivors"),
        "backtrack": (len(made.path), "arcs of the path"),
    }


def rows(repeats: int) -> Iterator[Row]:
    """The ceilings; then median, smallest and largest time of each stage in each case, and its share of them."""
    ceiling = stage_ceilings.measured(repeats, THREADS)
    yield from ceiling.rows()
    for case in CASES:
        stages = GpuStages(case)
        least = stage_ceilings.least(stages.kernel.frame, stages.made, case.layout)
        for stage, took in sampled(stages, repeats, STAGES).items():
            what: Row = {"search": case.name, "stage": stage, "room": case.layout.room}
            yield what | row(took, *stages.items[stage]) | ceiling.share(least[stage], 1e-6 * statistics.median(took))


def sampled(stages: TimedStages, repeats: int, names: Sequence[str]) -> dict[str, list[float]]:
    """Microseconds of each of these stages, so many times."""
    stages.seconds()
    each = [stages.seconds() for _ in range(repeats)]
    return {stage: [1e6 * one[stage] for one in each] for stage in names}


def row(took: Sequence[float], count: int, unit: str) -> Row:
    return {
        "work": f"{count:,} {unit}",
        "microseconds": statistics.median(took),
        "spread": [min(took), max(took)],
        "nanoseconds_an_item": 1e3 * statistics.median(took) / max(1, count),
    }
