"""Times one stage at a time: `benchmarks/stages/NAME.py` says how it is called and what it works through.

A stage module has two functions. ``case(frame)`` returns the call to time, the number of items that it works through,
and their name; ``check(frame, result)`` asserts that what the call returned is right. Every stage gets the same frame:
a search in its steady state on a random graph of the shape of a SentencePiece TLG. Times include the border to Python,
which copies the arrays in and out.
"""

import importlib
import pkgutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam import _stages
from benchmarks import stages
from benchmarks.harness import seeds
from benchmarks.harness.registry import Row

Case = tuple[Callable[[], object], int, str]
SECONDS_A_REPEAT = 0.1
STATES, COLUMNS, FRAMES, SEED = 300_000, 513, 40, 20
BEAM, MAX_ACTIVE = 17.0, 10_000


@dataclass(frozen=True)
class Frame:
    """One frame, stage by stage: the output of each is the input of the next."""

    graph: arcbeam.Graph
    wide: Any  # states of many arcs, as an engine has them
    log_probs: npt.NDArray[np.float32]  # [frames, columns] before and with this frame
    acoustic: Any  # costs of this frame
    log: Any  # token log of the frames before
    tokens: npt.NDArray[Any]
    first_log: int
    leave: npt.NDArray[np.bool_]  # whether each token leaves
    candidates: npt.NDArray[Any]
    bound: float
    winners: npt.NDArray[Any]  # after recombine
    frontier: npt.NDArray[Any]  # after closure
    leaving_arcs: int


def random_graph(rng: np.random.Generator) -> arcbeam.Graph:
    """A self-loop a state, a few arcs or (one state in 50) hundreds, an epsilon arc to a hub for one in six."""
    degree = np.where(rng.random(STATES) < 0.02, rng.integers(100, 400, STATES), rng.integers(1, 5, STATES))
    source = np.repeat(np.arange(STATES), degree)
    target = rng.integers(0, STATES, len(source))
    label = rng.integers(1, COLUMNS, len(source))
    word = np.where(rng.random(len(source)) < 0.3, rng.integers(1, 1000, len(source)), 0)
    weight = rng.gamma(2.0, 0.8, len(source))
    loops = np.arange(STATES)
    hubs = STATES // 100
    backs = np.flatnonzero(rng.random(STATES - hubs) < 1 / 6)  # to the last states, which have none: no cycle
    zero = np.zeros_like
    arcs = [
        np.concatenate([source, loops, backs]),
        np.concatenate([target, loops, rng.integers(STATES - hubs, STATES, len(backs))]),
        np.concatenate([label, np.full(STATES, COLUMNS), zero(backs)]),
        np.concatenate([word, zero(loops), zero(backs)]),
        np.concatenate([weight, zero(loops), rng.gamma(2.0, 1.0, len(backs))]),
    ]
    finals = {int(s): 1.0 for s in rng.integers(0, STATES, 1000)}
    return arcbeam.Graph.from_arcs(arcs, finals=finals, num_states=STATES, num_columns=COLUMNS)


@seeds.kept
def frame() -> Frame:
    """The last frame of a search that has gone through its stages; the same one each time."""
    rng = np.random.Generator(np.random.PCG64(seeds.used("graph and frames of the stages", SEED)))
    graph = random_graph(rng)
    logits = rng.normal(-8.0, 2.0, (FRAMES, COLUMNS)).astype(np.float32)
    logits[np.arange(FRAMES), rng.integers(0, COLUMNS, FRAMES)] += 12.0
    logits[:, -1] = 0.0  # the blank
    log_probs = (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype(np.float32)

    log = _stages.TokenLog(1 << 22)
    start = np.array([(0.0, _stages.NO_ARC, graph.start, _stages.NO_SOURCE)], dtype=_stages.CANDIDATE)
    frontier, entries = _stages.closure(graph, start, BEAM, 0), 0
    for t in range(FRAMES):
        tokens, _best = log.prune(frontier)
        first_log, entries = entries, entries + len(tokens)
        _cut, leave = _stages.cutoff(tokens, BEAM, MAX_ACTIVE)
        acoustic = _stages.AcousticCosts(log_probs[t], blank=COLUMNS - 1)
        candidates, bound, work = _stages.expand(graph, tokens, first_log, leave, acoustic, BEAM)
        winners = _stages.recombine(candidates, bound)
        frontier = _stages.closure(graph, winners, bound, entries)
    return Frame(
        graph, _stages.WideStates(graph), log_probs, acoustic, log, tokens, first_log, leave, candidates, bound,
        winners, frontier, work["leaving_arcs"],
    )  # fmt: skip


def names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(stages.__path__))


def checked_case(name: str) -> Case:
    """The case of a stage whose answer has been checked."""
    stage = importlib.import_module(f"benchmarks.stages.{name}")
    call, items, unit = stage.case(frame())
    stage.check(frame(), call())
    return call, items, unit


def rows(repeats: int) -> Iterator[Row]:
    """Median, smallest and largest time of a call of each stage."""
    for name in names():
        call, items, unit = checked_case(name)
        began = time.perf_counter()
        call()
        loops = max(1, int(SECONDS_A_REPEAT / max(1e-9, time.perf_counter() - began)))
        each = []
        for _ in range(repeats):
            began = time.perf_counter()
            for _ in range(loops):
                call()
            each.append((time.perf_counter() - began) / loops * 1e6)
        median = statistics.median(each)
        yield {
            "stage": name,
            "work": f"{items:,} {unit}",
            "microseconds": median,
            "spread": [min(each), max(each)],
            "nanoseconds_an_item": median * 1e3 / max(1, items),
        }
