"""Stage cutoff: the bound of the tokens that may leave, with max_active at work."""

from typing import Any

import numpy as np

from arcbeam.ctc import _stages
from benchmarks.engine.stage_timing import BEAM, Case, Frame


def case(frame: Frame) -> Case:
    half = len(frame.tokens) // 2
    return lambda: _stages.cutoff(frame.tokens, BEAM, half), len(frame.tokens), "tokens"


def check(frame: Frame, bound: Any) -> None:
    costs = np.sort(frame.tokens["cost"])
    assert bound == min(costs[0] + np.float32(BEAM), costs[len(costs) // 2 - 1])
