"""Stage prune: survivors rescaled and appended to a token log that is collected as it grows."""

from typing import Any

from arcbeam import _stages
from benchmarks.engine.stage_timing import Case, Frame


def case(frame: Frame) -> Case:
    first = frame.frontier.copy()
    first["source"] = _stages.NO_SOURCE  # a log of its own, in which nothing comes before
    log = _stages.TokenLog(1 << 20)
    return lambda: log.prune(first), len(first), "survivors"


def check(frame: Frame, result: Any) -> None:
    tokens, best = result
    assert best == frame.frontier["cost"].min()
    assert tokens["state"].tolist() == frame.frontier["state"].tolist()
    assert tokens["cost"].tobytes() == (frame.frontier["cost"] - best).tobytes()
