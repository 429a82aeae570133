"""Stage expand: the emitting arcs of the tokens within the cut-off."""

from typing import Any

import numpy as np

from arcbeam import _stages
from benchmarks.engine.stage_timing import BEAM, Case, Frame


def case(frame: Frame) -> Case:
    def call() -> object:
        return _stages.expand(frame.graph, frame.tokens, frame.first_log, frame.leave, frame.acoustic, BEAM, frame.wide)

    return call, frame.leaving_arcs, "arcs leaving"


def check(frame: Frame, result: Any) -> None:
    """Every arc in float32, in the order of the sum that is written down."""
    candidates, bound, _ = result
    states, costs = frame.graph.states, frame.acoustic.costs()
    leaving = np.flatnonzero(frame.leave)
    state = frame.tokens["state"][leaving]
    first, last = states["first_emitting"][state].astype(np.int64), states["first_arc"][state + 1].astype(np.int64)
    token = np.repeat(leaving, last - first)
    arc = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
    target = frame.graph.targets[arc]
    cost = (frame.tokens["cost"][token] + costs[frame.graph.columns[arc]]) + target["weight"]
    assert bound == cost.min() + np.float32(BEAM)
    kept = np.flatnonzero(cost <= bound)
    expected = np.empty(len(kept), _stages.CANDIDATE)
    expected["cost"], expected["arc"], expected["state"] = cost[kept], arc[kept], target["next_state"][kept]
    expected["source"] = frame.first_log + token[kept]
    assert (
        np.sort(candidates, order=("arc", "source")).tobytes() == np.sort(expected, order=("arc", "source")).tobytes()
    )
