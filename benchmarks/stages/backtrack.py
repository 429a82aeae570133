"""Stage backtrack: the best token of the last frame and its path."""

from benchmarks.stage_timing import COLUMNS, Case, Frame


def case(frame: Frame) -> Case:
    frames = frame.log_probs[:-1]  # the log ends with the tokens that this frame starts from
    return lambda: frame.log.backtrack(frame.graph, frames, blank=COLUMNS - 1), len(frame.tokens), "tokens"
