"""Times the stages of the search that rescores on a GPU, as `engine.gpu_stage_timing` those of the plain one.

The frames are those of `benchmarks.engine.rescoring_frames`. The lookup is timed for each place of the large model,
without an arc cache, with one that is empty, and with one that has the frame's answers.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.adapters.gpu import Wrong
from benchmarks.data.datasets import DataMissing
from benchmarks.engine import stage_ceilings
from benchmarks.engine.gpu_stage_timing import THREADS, Gpu, TimedStages, row, sampled
from benchmarks.engine.placements import BUCKETED
from benchmarks.engine.rescoring_frames import HYPOTHESES, frame_and_answer
from benchmarks.engine.rescoring_stage_kernel import (
    STAGES,
    Lookup,
    Made,
    RescoringFrame,
    RescoringStageKernel,
    compare,
)
from benchmarks.engine.stage_kernel import Layout
from benchmarks.harness.registry import Row

ENTRIES = 1 << 12  # of the arc cache: room for all answers of a frame
LOOKUPS = tuple(
    Lookup(placement, cache=entries, cold=cold)
    for placement in ("resident", "host-direct", BUCKETED)
    for entries, cold in ((0, False), (ENTRIES, True), (ENTRIES, False))
)


@dataclass(frozen=True)
class Case:
    """A frame, and where the search would make it: what a block has of shared memory is the search's, too.

    ``apart``: it has words enough that lookup and rescore are two stages.
    """

    frame: str
    beam: float
    max_active: int
    layout: Layout
    apart: bool = True

    @property
    def name(self) -> str:
        return f"{self.frame}, {self.beam:g} / {self.max_active:,}, n = {HYPOTHESES}"

    def lookups(self) -> tuple[Lookup, ...]:
        return tuple(replace(lookup, apart=self.apart) for lookup in LOOKUPS)


CASES = (
    Case("synthetic", 17.0, 10_000, Layout(shared=320, spilled=8192, room="spilled")),
    Case("synthetic", 14.0, 5_000, Layout(shared=320, spilled=8192, room="mixed")),
    Case("demo", 17.0, 10_000, Layout(shared=320, spilled=8192, room="shared"), apart=False),
    Case("spm512-3gram", 17.0, 10_000, Layout(shared=320, spilled=8192, room="mixed")),
)


def place_of(lookup: Lookup) -> str:
    """Where the large model is, and what is in the cache."""
    cache = "no cache" if lookup.cache == 0 else "cold cache" if lookup.cold else "warm cache"
    return f"{lookup.placement}, {cache}"


def stages_of(lookup: Lookup) -> tuple[str, ...]:
    """Those to time: all of them once, for no other depends on where the model is."""
    if place_of(lookup) != place_of(LOOKUPS[0]):
        return ("lookup",)
    return STAGES if lookup.apart else tuple(stage for stage in STAGES if stage != "rescore")


def shown(stage: str, lookup: Lookup) -> str:
    """The stage's name in tables."""
    return "lookup and rescore" if stage == "lookup" and not lookup.apart else stage


def label(value: Case | Lookup | str) -> str:
    """A short name of one of these."""
    if isinstance(value, str):
        return value
    return place_of(value) if isinstance(value, Lookup) else f"{value.frame} {value.beam:g}"


class GpuRescoringStages(TimedStages):
    """The stages of one frame on the GPU; raises Wrong unless they make what the twin's make, and DataMissing."""

    def __init__(self, case: Case, lookup: Lookup = LOOKUPS[0], machine: Any = None) -> None:
        frame, answer = frame_and_answer(case.frame, case.beam, case.max_active)
        self.machine = machine or Gpu(**lookup.compiled)
        self.kernel = RescoringStageKernel(self.machine, frame, case.layout, lookup)
        self.made = self.kernel.run()
        try:
            compare(frame, self.made, answer)
            compare(frame, self.kernel.run(), answer)  # with a cache that is warm
        except AssertionError as error:
            raise Wrong(str(error)) from None
        self.items = items(frame, self.made)


def items(frame: RescoringFrame, made: Made) -> dict[str, tuple[int, str]]:
    """What each stage works through."""
    return {
        "lookup": (made.words, "words"),
        "rescore": (made.words, "words"),
        "recombine": (len(made.rescored), "candidates"),
        "closure": (len(made.frontier), "hypotheses"),
        "prune": (len(made.frontier), "hypotheses"),
        "backtrack": (len(frame.tokens), "tokens"),
    }


def rows(repeats: int) -> Iterator[Row]:
    """Median, smallest and largest time of each stage in each case; of the lookup also what it reads.

    With its share of the ceiling, as in `benchmarks.engine.gpu_stage_timing`.
    """
    ceiling = stage_ceilings.measured(repeats, THREADS)
    for case in CASES:
        machines: dict[str, Any] = {}
        for lookup in case.lookups():
            machine = machines.get(lookup.compiled["kernel"]) or Gpu(**lookup.compiled)
            machines[lookup.compiled["kernel"]] = machine
            try:
                stages = GpuRescoringStages(case, lookup, machine)
            except DataMissing as error:
                yield {"search": case.name, "stage": "all", "status": f"missing: {error}"}
                break
            times, counts = sampled(stages, repeats, stages_of(lookup)), looked_up(stages)
            least = stage_ceilings.rescoring_least(stages.kernel.frame, stages.made, case.layout, lookup, counts)
            for stage, took in times.items():
                what: Row = {"search": case.name, "stage": shown(stage, lookup), "room": case.layout.room}
                if stage == "lookup":
                    what |= {"model": place_of(lookup)} | counts
                share = ceiling.share(least[stage], 1e-6 * statistics.median(took))
                yield what | row(took, *stages.items[stage]) | share


def looked_up(stages: GpuRescoringStages) -> dict[str, int]:
    """Distinct words, those that the cache did not answer, and loads of the large model: the lookup's in a turn."""
    made: Made = stages.kernel.run()
    return made.looked_up
