"""Stage cutoff: which tokens may leave, with max_active at work."""

from typing import Any

import numpy as np

from arcbeam import _stages
from benchmarks.engine.stage_timing import BEAM, Case, Frame


def case(frame: Frame) -> Case:
    half = len(frame.tokens) // 2
    return lambda: _stages.cutoff(frame.tokens, BEAM, half), len(frame.tokens), "tokens"


def check(frame: Frame, result: Any) -> None:
    cost, state = frame.tokens["cost"], frame.tokens["state"]
    half = np.lexsort((state, cost))[: len(cost) // 2]
    bound = min(cost.min() + np.float32(BEAM), cost[half[-1]])
    assert result[0] == bound
    assert np.flatnonzero(result[1]).tolist() == sorted(half[cost[half] <= bound].tolist())
