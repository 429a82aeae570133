"""Stage backtrack: the best token of the last frame and its path."""

from benchmarks.stage_timing import Case, Frame


def case(frame: Frame) -> Case:
    return lambda: frame.log.backtrack(frame.graph), len(frame.tokens), "tokens"
