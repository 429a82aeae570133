"""The timing of the stages on a GPU, on the fake driver whose launches run in the emulator."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.adapters import gpu
from benchmarks.engine import ceilings, gpu_stage_timing, stage_ceilings, stage_kernel
from benchmarks.engine.stage_kernel import KERNEL, SOURCE, STAGES, Layout, Twin
from tests.benchmarks.kernels_on_fake_driver import launches
from tests.decode.random_graphs import random_graph, random_log_probs

PARAMETER_BYTES = 328
CEILING = stage_ceilings.Ceiling(dict.fromkeys((*stage_ceilings.RATES, *stage_ceilings.WAITS), 1.0))
CASE = gpu_stage_timing.Case(5.0, 40, Layout(shared=128, spilled=512, threads=64))


@pytest.fixture
def machine(fake_library, monkeypatch):
    with launches(fake_library, monkeypatch, {KERNEL: (SOURCE, PARAMETER_BYTES)}) as emulated:
        yield emulated.keep(gpu_stage_timing.Gpu(emulated.code))


@pytest.fixture
def frame(monkeypatch):
    twin = Twin(random_graph(4, states=120, columns=12), beam=5.0, max_active=40)
    for row in random_log_probs(2, 3, 12):
        frame = twin.frame(row)
        made = twin.make(frame)
    monkeypatch.setattr(gpu_stage_timing, "frame_and_answer", lambda case: (frame, made))
    return frame, made


def test_every_stage_has_its_time(machine, frame):
    stages = gpu_stage_timing.GpuStages(CASE, machine)
    assert set(stages.items) == set(stages.seconds(turns=2)) == set(STAGES)
    assert stages.items["cutoff"] == (len(frame[0].tokens), "tokens")
    assert stages.items["prune"] == (len(frame[1].survivors), "survivors")


def test_wrong_answers_are_not_timed(machine, frame, monkeypatch):
    wrong = replace(frame[1], path=frame[1].path + np.uint32(1))
    monkeypatch.setattr(gpu_stage_timing, "frame_and_answer", lambda case: (frame[0], wrong))
    with pytest.raises(gpu.Wrong, match="backtrack: element 0 is"):
        gpu_stage_timing.GpuStages(CASE, machine)


def test_rows_of_the_table(machine, frame, monkeypatch):
    monkeypatch.setattr(gpu_stage_timing, "Gpu", lambda: machine)
    monkeypatch.setattr(gpu_stage_timing, "CASES", (CASE,))
    monkeypatch.setattr(gpu_stage_timing, "TURNS", 2)
    monkeypatch.setattr(stage_ceilings, "measured", lambda repeats, threads: CEILING)
    ceilings_of_block, rows = [], []
    for row in gpu_stage_timing.rows(2):
        (rows if "search" in row else ceilings_of_block).append(row)
    assert [row["work"] for row in ceilings_of_block] == list(CEILING.nanoseconds)
    assert [row["stage"] for row in rows] == list(STAGES)
    assert rows[0]["search"] == "5 / 40"
    assert all(row["share"] * row["microseconds"] == pytest.approx(row["ceiling_us"]) for row in rows)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_nvcc_compiles_them():
    assert len(ceilings.compile_kernels((9, 0), SOURCE)) > 1000


def test_the_frame_is_that_of_the_cpus_benchmark():
    from benchmarks.engine import stage_timing

    frame, made = gpu_stage_timing.frame_and_answer(gpu_stage_timing.CASES[0])
    given = stage_timing.frame()
    assert frame.tokens.tobytes() == given.tokens.tobytes()
    assert np.sort(made.winners["arc"]).tobytes() == np.sort(given.winners["arc"]).tobytes()
    for case in gpu_stage_timing.CASES:
        assert stage_kernel.shared_bytes(case.layout, len(frame.log_probs)) <= 227 << 10
