"""What a stage of the search on a GPU has to do at least, and how long one block takes for that at its ceilings.

Nothing here looks at how a stage is written: its work is counted from the frame and from what it has to make of it.
The same frame is made over and over, so what is read of a graph or a model lies in L2, and a small log in L1. Ceilings
are those of one block, which a stage is timed by (`benchmarks.engine.ceilings`, with blocks of as many threads), each
measured in the same process:

* reads at random, of 16 bytes: a chunk of eight labels, the row of a state, an arc, an entry of a model or a cache;
* reads over the bus: the same of page-locked memory;
* minima: an offer to a state or a hypothesis, of 64 bits, in the memory where its table is;
* bytes: what lies in a row in device memory and is read or written;
* waits: reads that each need the one before, and barriers, of which the last ends the stage. They add up.

The one that takes longest bounds the stage. There is no ceiling of instructions, nor of reads of shared memory.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from arcbeam import _stages
from benchmarks.engine.ceilings import Ceilings, Size
from benchmarks.engine.rescoring_stage_kernel import Lookup, RescoringFrame
from benchmarks.engine.rescoring_stage_kernel import Made as RescoringMade
from benchmarks.engine.stage_kernel import NONE, Frame, Layout, Made
from benchmarks.harness.registry import Row

LABELS_A_READ = 8
LOG_BYTES, TOKEN_BYTES, CANDIDATE_BYTES, STATE_BYTES = 8, 24, 16, 32
READS, BUS_READS, BYTES = "reads", "reads over the bus", "bytes"
SHARED_MINIMA, L2_MINIMA = "minima in shared memory", "minima in L2"
IN_A_ROW, BUS_IN_A_ROW, L1_IN_A_ROW = "reads in a row", "over the bus in a row", "of L1 in a row"
BARRIERS = "barriers"
WAITS = (IN_A_ROW, BUS_IN_A_ROW, L1_IN_A_ROW, BARRIERS)
RATES = (READS, BUS_READS, SHARED_MINIMA, L2_MINIMA, BYTES)
Least = Mapping[str, int]  # how many of each kind
SIZE = Size(l2_entries=1 << 18, steps=4096)
L1_ENTRIES, L1_LOG_BYTES = 1 << 9, 1 << 17  # of 16 bytes; what L1 may keep of a log beside a block's shared memory
A_LOOKUP = 3  # reads of a model that need one another: where a history begins, the label, the arc
OF_MODELS = 2  # a word is looked up in both


@dataclass(frozen=True)
class Ceiling:
    """Nanoseconds that one block takes for one of each kind."""

    nanoseconds: Mapping[str, float]

    def share(self, least: Least, seconds: float) -> Row:
        """What bounds a stage that took so long, what that takes at the ceiling, and its share of the time."""
        waits = {kind: least[kind] for kind in WAITS if least.get(kind)}
        floors = {f"{least[kind]:,} {kind}": self.of(kind, least[kind]) for kind in RATES if least.get(kind)}
        floors[", ".join(f"{count:,} {kind}" for kind, count in waits.items())] = sum(
            self.of(kind, count) for kind, count in waits.items()
        )
        bound = max(floors, key=lambda name: floors[name])
        return {"bound": bound, "ceiling_us": floors[bound] / 1e3, "share": floors[bound] / 1e9 / seconds}

    def of(self, kind: str, count: int) -> float:
        return count * self.nanoseconds[kind]

    def rows(self) -> Iterator[Row]:
        for kind, each in self.nanoseconds.items():
            yield {"stage": "a ceiling of one block", "work": kind, "nanoseconds_an_item": each}


def measured(repeats: int, threads: int, size: Size = SIZE, **more: Any) -> Ceiling:
    """The ceilings of one block of so many threads."""
    one = Ceilings(replace(size, threads=threads), repeats, blocks=1, **more)
    reads, in_a_row = one.reads(size.l2_entries)
    bus_reads, bus_in_a_row = one.reads(size.l2_entries, on_host=True)
    rates = {
        READS: reads, BUS_READS: bus_reads, SHARED_MINIMA: one.shared_minima(), L2_MINIMA: one.global_minima(),
        BYTES: one.moves(),
    }  # fmt: skip
    waits = {
        IN_A_ROW: in_a_row, BUS_IN_A_ROW: bus_in_a_row, L1_IN_A_ROW: one.reads(min(L1_ENTRIES, size.l2_entries))[1],
        BARRIERS: one.barriers(),
    }  # fmt: skip
    return Ceiling(
        {kind: 1e9 / statistics.median(each) for kind, each in rates.items()}
        | {kind: statistics.median(each) for kind, each in waits.items()}
    )


def least(frame: Frame, made: Made, layout: Layout) -> dict[str, Least]:
    """Of the stages of the plain search."""
    added = len(made.frontier) - len(made.winners)
    noted = len(made.candidates) + epsilon_offers(frame, made)
    return {
        "cutoff": _cutoff(frame),
        "expand": {READS: chunks(frame, made) + len(made.candidates), IN_A_ROW: 2, BARRIERS: 3},
        "recombine": {_minima(layout): len(made.candidates), READS: len(made.winners), IN_A_ROW: 1, BARRIERS: 1},
        "closure": {
            _minima(layout): epsilon_offers(frame, made), READS: added, IN_A_ROW: longest_way(frame, made),
            BARRIERS: max(1, levels(frame, made)),
        },
        "prune": _prune(layout, noted, len(made.frontier), len(made.survivors)),
        "backtrack": {
            READS: len(made.survivors), SHARED_MINIMA: len(made.survivors), **_path(frame, made, 1), BARRIERS: 3,
        },
    }  # fmt: skip


def rescoring_least(
    frame: RescoringFrame, made: RescoringMade, layout: Layout, lookup: Lookup, looked_up: Mapping[str, int]
) -> dict[str, Least]:
    """Of those of the search that rescores. `looked_up`: what the stage lookup counted in a turn."""
    words = frame.graph.words
    added, admitted = len(made.frontier) - len(made.winners), np.count_nonzero(made.rescored["cost"] <= made.bound)
    # The row of a state; before it the word, its label, and the look-up.
    in_a_row = [1 + (A_LOOKUP + 2 if words[arc] else 0) for arc in made.entries["arc"]]
    on_device = layout.room != "shared"
    rescored = {READS: OF_MODELS * made.words if on_device else 0, IN_A_ROW: OF_MODELS * on_device, BARRIERS: 1}
    return {
        "lookup": _lookup(made, lookup, looked_up),
        "rescore": rescored,
        "recombine": {_minima(layout): int(admitted), READS: len(made.winners), IN_A_ROW: 1, BARRIERS: 1},
        "closure": {
            _minima(layout): added, READS: added, IN_A_ROW: longest_way(frame, made, in_a_row),
            BARRIERS: max(1, levels(frame, made)),
        },
        "prune": _prune(layout, int(admitted) + added, len(made.frontier), len(made.survivors)),
        "backtrack": {
            READS: len(made.survivors), SHARED_MINIMA: len(made.survivors),
            **_path(frame, made, 1 + (A_LOOKUP if made.reached_final else 0)), BARRIERS: 4,
        },
    }  # fmt: skip


def _minima(layout: Layout) -> str:
    """Of the table: in shared memory, or beside it where all of the frame is."""
    return L2_MINIMA if layout.room == "spilled" else SHARED_MINIMA


def _cutoff(frame: Frame) -> Least:
    """Where there are too many tokens, four digits are counted: all tokens by the first."""
    if len(frame.tokens) <= frame.max_active or frame.max_active == 0:
        return {BARRIERS: 1}
    return {SHARED_MINIMA: len(frame.tokens), BARRIERS: 2 * 4}


def _path(frame: Frame, made: Any, before: int) -> Least:
    """The entries of a path, each of which tells where the next one is, and so many reads in a row before."""
    if LOG_BYTES * len(frame.entries) <= L1_LOG_BYTES:
        return {IN_A_ROW: before, L1_IN_A_ROW: len(made.path)}
    return {IN_A_ROW: before + len(made.path)}


def _prune(layout: Layout, candidates: int, states: int, survivors: int) -> Least:
    """Each candidate is asked whether it won; each survivor is written to the log, and where tokens are."""
    moved = survivors * (LOG_BYTES + (TOKEN_BYTES if survivors > layout.shared else 0))
    if layout.room != "shared":
        moved += candidates * CANDIDATE_BYTES + states * STATE_BYTES
    found = candidates if layout.room == "spilled" else 0
    return {READS: found, BYTES: moved, IN_A_ROW: min(1, found), BARRIERS: 2}


def _lookup(made: RescoringMade, lookup: Lookup, looked_up: Mapping[str, int]) -> Least:
    """The word of each candidate; of each distinct one two labels, two answers of the cache, and what is missed there.

    Of the large model so many reads as were counted, where its arcs are; of an index beside it only their order.
    """
    distinct, cached = looked_up["distinct"], lookup.cache != 0
    reads = len(made.rescored) + OF_MODELS * distinct * (2 if cached else 1)
    in_a_row = 2 + cached
    if not looked_up["misses"]:
        return {READS: reads, IN_A_ROW: in_a_row, BARRIERS: 2}
    if lookup.placement == "resident":
        return {READS: reads + looked_up["reads"], IN_A_ROW: in_a_row + A_LOOKUP, BARRIERS: 2}
    # An index says which arc a word takes; of buckets a chain tells which, and both lie over the bus.
    index, arcs = (A_LOOKUP - 1, 1) if lookup.placement == "host-direct" else (0, 2)
    return {READS: reads, BUS_READS: looked_up["reads"], IN_A_ROW: in_a_row + index, BUS_IN_A_ROW: arcs, BARRIERS: 2}


def chunks(frame: Frame, made: Made) -> int:
    """Reads of labels: of the tokens that the bound does not let skip."""
    states = frame.graph.states
    acoustic = _stages.AcousticCosts(
        frame.log_probs, acoustic_scale=frame.acoustic_scale, blank_penalty=frame.blank_penalty, blank=frame.blank
    )
    state, cost = frame.tokens["state"], frame.tokens["cost"]
    first, end = states["first_emitting"][state].astype(np.int64), states["first_arc"][state + 1].astype(np.int64)
    least_cost = (cost + acoustic.costs().min()) + states["smallest_weight"][state]
    leaves = frame.cutoff()[1] & (first < end) & (least_cost <= made.bound)
    each = (end - 1) // LABELS_A_READ - first // LABELS_A_READ + 1
    return int(each[leaves].sum())


def epsilon_offers(frame: Frame, made: Made) -> int:
    """Epsilon arcs of the frontier that the bound admits."""
    states, targets = frame.graph.states, frame.graph.targets
    state, cost = made.frontier["state"], made.frontier["cost"]
    first, end = states["first_arc"][state].astype(np.int64), states["first_emitting"][state].astype(np.int64)
    arcs = np.concatenate([np.arange(a, b) for a, b in zip(first, end, strict=True)] or [np.zeros(0, np.int64)])
    reached = np.repeat(cost, end - first) + targets["weight"][arcs]
    return int(np.count_nonzero(reached <= made.bound))


def levels(frame: Frame, made: Any) -> int:
    """Depths at which a state of the frontier has epsilon arcs: one has to end before the next begins."""
    states, state = frame.graph.states, np.unique(made.frontier["state"])
    leaving = states["first_emitting"][state] > states["first_arc"][state]
    return len(np.unique(states["depth"][state[leaving]]))


def longest_way(frame: Frame, made: Any, weights: Sequence[int] | None = None) -> int:
    """Of the epsilon arcs that lead to a survivor behind each other, the most; each counts by its survivor's weight."""
    first, source = len(frame.entries), made.entries["source"].astype(np.int64)
    before = np.where((source >= first) & (source != NONE), source - first, -1)
    worth = np.ones(len(source), np.int64) if weights is None else np.asarray(weights, np.int64)
    most, way, at = 0, np.zeros(len(source), np.int64), np.arange(len(source))
    while (goes_on := (at >= 0) & (before[at] >= 0)).any():
        way += np.where(goes_on, worth[at], 0)
        at = np.where(goes_on, before[at], -1)
        most = max(most, int(way.max()))
    return most
