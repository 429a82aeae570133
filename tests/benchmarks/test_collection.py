"""Timings are found when they are asked for, and by no ordinary test run; the stages' answers are right."""

import os
import subprocess
import sys
import tomllib

import numpy as np
import pytest

from arcbeam.ctc.lattice._lattices import LINK
from benchmarks.engine import stage_timing
from benchmarks.engine.rescoring_stage_kernel import STAGES as RESCORING_STAGES
from benchmarks.engine.stage_kernel import STAGES
from benchmarks.harness import record


def test_pytest_finds_every_stage_and_both_engines():
    command = [sys.executable, "-m", "pytest", "benchmarks", "--benchmark-only", "--collect-only", "-q"]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}  # as nobody's worker
    done = subprocess.run(command, cwd=record.ROOT, env=ours, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line.split("::")[1] for line in done.stdout.splitlines() if "::" in line}
    wanted = {f"test_stage[{name}]" for name in stage_timing.names()} | {"test_engine[cpu]", "test_engine[cuda]"}
    searches = ("17 / 10,000", "14 / 5,000", "17 / 500")
    wanted |= {f"test_stage_on_gpu[{name}-{search}]" for name in STAGES for search in searches}
    rescoring = {line for line in found if line.startswith("test_rescoring_stage_on_gpu[")}
    assert found == wanted | rescoring
    for frame in ("synthetic 17", "synthetic 14", "demo 17", "spm512-3gram 17"):
        for name in {*RESCORING_STAGES} - ({"rescore"} if frame == "demo 17" else set()):
            assert f"test_rescoring_stage_on_gpu[{frame}-resident, no cache-{name}]" in rescoring
        for place in ("resident", "host-direct", "host-direct, in buckets"):
            for cache in ("no", "cold", "warm"):
                assert f"test_rescoring_stage_on_gpu[{frame}-{place}, {cache} cache-lookup]" in rescoring


def test_an_ordinary_run_times_nothing():
    settings = tomllib.loads((record.ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert settings["testpaths"] == ["tests"]


@pytest.mark.parametrize("name", stage_timing.names())
def test_answers_are_checked_before_they_are_timed(name, monkeypatch):
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
