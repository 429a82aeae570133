"""Stage expand: the emitting arcs of the tokens within the cut-off."""

from arcbeam import _stages
from benchmarks.stage_timing import BEAM, Case, Frame


def case(frame: Frame) -> Case:
    def call() -> object:
        return _stages.expand(frame.graph, frame.tokens, frame.first_log, frame.cut, frame.acoustic, BEAM)

    return call, frame.leaving_arcs, "arcs leaving"
