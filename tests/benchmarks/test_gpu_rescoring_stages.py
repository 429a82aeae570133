"""The timing of the stages that rescore, on the fake driver whose launches run in the emulator."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.adapters import gpu
from benchmarks.data.datasets import DataMissing
from benchmarks.engine import ceilings, stage_ceilings
from benchmarks.engine import gpu_rescoring_stage_timing as timing
from benchmarks.engine.gpu_stage_timing import Gpu
from benchmarks.engine.placements import BUCKETED
from benchmarks.engine.rescoring_frames import frame_and_answer
from benchmarks.engine.rescoring_stage_kernel import (
    BUCKETED_KERNEL,
    BUCKETED_SOURCE,
    KERNEL,
    SOURCE,
    STAGES,
    Lookup,
    shared_bytes,
)
from benchmarks.engine.stage_kernel import Layout
from tests.benchmarks.kernels_on_fake_driver import launches

PARAMETER_BYTES = 720
SOURCES = {KERNEL: SOURCE, BUCKETED_KERNEL: BUCKETED_SOURCE}
CEILING = stage_ceilings.Ceiling(dict.fromkeys((*stage_ceilings.RATES, *stage_ceilings.WAITS), 1.0))
CASE = timing.Case("demo", 8.0, 200, Layout(shared=320, spilled=1024, threads=64))


@pytest.fixture
def machines(fake_library, monkeypatch):
    kernels = {kernel: (source, PARAMETER_BYTES) for kernel, source in SOURCES.items()}
    with launches(fake_library, monkeypatch, kernels) as emulated:
        yield {kernel: emulated.keep(Gpu(emulated.code, source, kernel)) for kernel, source in SOURCES.items()}


@pytest.fixture
def machine(machines):
    return machines[KERNEL]


@pytest.fixture(scope="module")
def demo():
    pytest.importorskip("kaldifst", reason="building the graph needs arcbeam[build]")
    return frame_and_answer(CASE.frame, CASE.beam, CASE.max_active)


@pytest.mark.parametrize("lookup", [Lookup(), Lookup("host-direct", 16, cold=True), Lookup(BUCKETED, 16)], ids=repr)
def test_every_stage_has_its_time(machines, demo, lookup):
    machine = machines[lookup.compiled["kernel"]]
    stages = timing.GpuRescoringStages(CASE, lookup, machine)
    assert set(stages.items) == set(stages.seconds(turns=2)) == set(STAGES)
    assert stages.items["lookup"][0] == demo[1].words > 0
    assert timing.looked_up(stages)["distinct"] > 0
    assert set(machine.pinned) == {f"large {column}" for column in lookup.on_host()}


def test_wrong_answers_are_not_timed(machine, demo, monkeypatch):
    wrong = replace(demo[1], path=demo[1].path + np.uint32(1))
    monkeypatch.setattr(timing, "frame_and_answer", lambda *_: (demo[0], wrong))
    with pytest.raises(gpu.Wrong, match="backtrack: element 0 is"):
        timing.GpuRescoringStages(CASE, machine=machine)


def test_rows_of_the_table(machines, demo, monkeypatch):
    absent = timing.Case("spm512-3gram", 8.0, 200, CASE.layout)

    def frames(name, *_):
        if name != "demo":
            raise DataMissing("no such graph")
        return demo

    monkeypatch.setattr(timing, "frame_and_answer", frames)
    monkeypatch.setattr(timing, "Gpu", lambda source, kernel: machines[kernel])
    monkeypatch.setattr(timing, "CASES", (replace(CASE, apart=False), absent))
    monkeypatch.setattr(timing, "sampled", lambda stages, repeats, names: {name: [1.0] * repeats for name in names})
    monkeypatch.setattr(stage_ceilings, "measured", lambda repeats, threads: CEILING)
    rows = list(timing.rows(2))
    looked_up = [row for row in rows if row["stage"] == "lookup and rescore"]
    assert [row["model"] for row in looked_up] == [timing.place_of(lookup) for lookup in timing.LOOKUPS]
    assert {row["stage"] for row in rows} == {*STAGES, "lookup and rescore", "all"} - {"lookup", "rescore"}
    assert rows[-1]["status"] == "missing: no such graph"
    assert all(row["share"] > 0 and row["bound"] for row in rows[:-1])
    warm = looked_up[2]
    assert warm["misses"] == 0 < warm["distinct"] <= looked_up[0]["misses"] <= looked_up[0]["reads"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.stem)
def test_nvcc_compiles_them(source):
    assert len(ceilings.compile_kernels((9, 0), source)) > 1000


def test_the_frames_fit():
    for case in timing.CASES[:2]:
        frame, made = frame_and_answer(case.frame, case.beam, case.max_active)
        assert made.words > 32 and case.apart
        assert shared_bytes(case.layout, len(frame.log_probs)) <= 100 << 10
