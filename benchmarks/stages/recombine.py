"""Stage recombine: one winner for each state."""

from typing import Any

import numpy as np

from arcbeam import _stages
from benchmarks.engine.stage_timing import Case, Frame


def case(frame: Frame) -> Case:
    return lambda: _stages.recombine(frame.candidates, frame.bound), len(frame.candidates), "candidates"


def check(frame: Frame, winners: Any) -> None:
    ordered = np.sort(frame.candidates, order=("state", "cost", "arc"))
    first = np.flatnonzero(np.diff(ordered["state"], prepend=-1))
    assert np.sort(winners, order="state").tobytes() == ordered[first].tobytes()
