"""Stage rescore: rescored costs, and the bound of the next frame."""

from arcbeam import _stages
from benchmarks.stage_timing import BEAM, Case, Frame
from benchmarks.stages.lookup import looked_up


def case(frame: Frame) -> Case:
    candidates, deviations, _ = looked_up(frame)
    return lambda: _stages.rescore(candidates, deviations, BEAM), len(candidates), "candidates"
