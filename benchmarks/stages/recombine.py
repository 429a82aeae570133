"""Stage recombine: one winner for each state."""

from arcbeam import _stages
from benchmarks.stage_timing import Case, Frame


def case(frame: Frame) -> Case:
    return lambda: _stages.recombine(frame.candidates, frame.bound), len(frame.candidates), "candidates"
