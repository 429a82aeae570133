"""Stage closure: the epsilon arcs of the winners; the binding recombines them once more, to make its table."""

import heapq
from typing import Any

import numpy as np

from arcbeam import _stages
from benchmarks.engine.stage_timing import Case, Frame


def case(frame: Frame) -> Case:
    first_log = frame.first_log + len(frame.tokens)
    return lambda: _stages.closure(frame.graph, frame.winners, frame.bound, first_log), len(frame.frontier), "states"


def check(frame: Frame, frontier: Any) -> None:
    """Epsilon arcs followed from a dictionary, each state once it is complete."""
    states, targets = frame.graph.states, frame.graph.targets
    best = {int(w["state"]): (w["cost"], int(w["arc"])) for w in frame.winners}
    waiting = [(int(states["depth"][s]), s) for s in best]
    heapq.heapify(waiting)
    while waiting:
        _, state = heapq.heappop(waiting)
        for arc in range(int(states["first_arc"][state]), int(states["first_emitting"][state])):
            reached, cost = int(targets["next_state"][arc]), best[state][0] + targets["weight"][arc]
            if cost <= frame.bound:
                if reached not in best:
                    heapq.heappush(waiting, (int(states["depth"][reached]), reached))
                best[reached] = min(best.get(reached, (np.inf, 0)), (cost, arc))
    found = {int(f["state"]): (f["cost"], int(f["arc"])) for f in frontier}
    assert found == best
