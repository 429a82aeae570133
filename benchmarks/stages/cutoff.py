"""Stage cutoff: the bound of the tokens that may leave, with max_active at work."""

from arcbeam import _stages
from benchmarks.stage_timing import BEAM, Case, Frame


def case(frame: Frame) -> Case:
    half = len(frame.tokens) // 2
    return lambda: _stages.cutoff(frame.tokens, BEAM, half), len(frame.tokens), "tokens"
