"""Stage rescore: rescored costs, and the bound of the next frame."""

from typing import Any

import numpy as np

from arcbeam import _stages
from benchmarks.engine.stage_timing import BEAM, Case, Frame
from benchmarks.stages.lookup import looked_up


def case(frame: Frame) -> Case:
    candidates, deviations, _ = looked_up(frame)
    return lambda: _stages.rescore(candidates, deviations, BEAM), len(candidates), "candidates"


def check(frame: Frame, result: Any) -> None:
    candidates, deviations, _ = looked_up(frame)
    costs = candidates["cost"] + deviations["cost"]
    rescored, bound, alive = result
    assert rescored["cost"].tobytes() == costs.tobytes()
    assert rescored["arc"].tolist() == candidates["arc"].tolist()
    assert alive and bound == costs.min() + np.float32(BEAM)
