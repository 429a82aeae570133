"""The answers of the stages of the CPU engine are checked before `benchmarks.check` times them."""

import sys

import numpy as np
import pytest

from arcbeam.ctc.lattice._lattices import LINK
from benchmarks.engine import stage_timing


@pytest.mark.parametrize("name", stage_timing.names())
def test_answers_are_checked_before_they_are_timed(name):
    call, items, _ = stage_timing.checked_case(name)
    assert items > 0 and call() is not None
    module = sys.modules[f"benchmarks.stages.{name}"]
    candidates = stage_timing.frame().candidates
    wrong = {
        "cutoff": (-1.0, np.zeros(1, bool)),
        "expand": ([], -1.0, {}),
        "prune": ([], -1.0),
        "backtrack": (np.empty(0), 0.0, False),
        "lookup": (candidates[:1], None, {}),
        "rescore": (candidates[:1], 0.0, True),
        "lattice": {"links": np.zeros(1, LINK), "first_token": [0, 0, 0]},
    }
    with pytest.raises(AssertionError):
        module.check(stage_timing.frame(), wrong.get(name, candidates))
