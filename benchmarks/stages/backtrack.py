"""Stage backtrack: the best token of the last frame and its path."""

from typing import Any

import arcbeam
from benchmarks.engine.stage_timing import BEAM, MAX_ACTIVE, Case, Frame


def case(frame: Frame) -> Case:
    return lambda: frame.log.backtrack(frame.graph), len(frame.tokens), "tokens"


def check(frame: Frame, result: Any) -> None:
    """The path of the stages is that of the engine on the frames before this one."""
    decoder = arcbeam.CtcDecoder(frame.graph, beam=BEAM, max_active=MAX_ACTIVE, threads=1, device="cpu")
    (found,) = decoder.decode([frame.log_probs[:-1]])
    assert result[0].tobytes() == found.arcs.tobytes()
    assert result[2] == found.reached_final
