"""Stage closure: the epsilon arcs of the winners; the binding recombines them once more, to make its table."""

from arcbeam import _stages
from benchmarks.stage_timing import Case, Frame


def case(frame: Frame) -> Case:
    first_log = frame.first_log + len(frame.tokens)
    return lambda: _stages.closure(frame.graph, frame.winners, frame.bound, first_log), len(frame.frontier), "states"
