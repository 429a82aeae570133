"""The kernels that measure a device's ceilings, in the emulator behind the fake driver: their answers are numpy's."""

import shutil

import numpy as np
import pytest

from benchmarks.adapters import gpu
from benchmarks.engine import ceilings, far_reads, stage_ceilings
from tests.benchmarks.kernels_on_fake_driver import launches

PARAMETERS = {"fill_table": 24, "random_reads": 24, "dependent_reads": 24, "moves": 24}
PARAMETERS |= {"global_minima": 16, "shared_minima": 16, "barriers": 16}
SMALL = ceilings.Size(
    hbm_entries=512, l2_entries=64, slots=32, shared_slots=16, threads=64, blocks_a_multiprocessor=1, steps=16,
    copy_bytes=1 << 12, moved_entries=256, calls=8,
)  # fmt: skip


@pytest.fixture
def made(fake_library, monkeypatch):
    """The ceilings of a device whose launches run in the emulator."""
    kernels = {kernel: (ceilings.SOURCE, size) for kernel, size in PARAMETERS.items()}
    with launches(fake_library, monkeypatch, kernels) as emulated:
        found = emulated.keep(ceilings.Ceilings(SMALL, repeats=1, image=emulated.code))
        found.blocks = 2
        found.seconds = lambda work: [work() or 1e-3]  # the fake driver's events have no time
        yield found, emulated


def test_every_ceiling(made):
    found, emulated = made
    rows = ceilings.rows(found)
    assert set(emulated.launched) == set(PARAMETERS) - {"moves"}
    assert [row["unit"] for row in rows] == ["G/s", "ns", "G/s", "ns", "G/s", "G/s", "GB/s", "GB/s", "ns", "us"]
    assert rows[0]["value"] == pytest.approx(2 * 64 * 16 / 1e-3 / 1e9)
    assert all(row["spread"][0] <= row["value"] <= row["spread"][1] for row in rows)


def test_reads_of_the_host(made):
    found, emulated = made
    rows = far_reads.rows(found, far_reads.Size((64, 128), 8))
    assert set(emulated.launched) == {"fill_table", "random_reads"}
    assert [row["unit"] for row in rows] == 4 * ["G/s"]
    assert ["managed" in row["what"] for row in rows] == [False, True, False, True]


def test_those_of_one_block(made, monkeypatch):
    found, emulated = made

    def one_block(size, repeats, blocks):
        assert (size.threads, repeats, blocks) == (32, 1, 1)
        found.blocks = 1
        found.size = size
        return found

    monkeypatch.setattr(stage_ceilings, "Ceilings", one_block)
    of_block = stage_ceilings.measured(1, 32, SMALL)
    assert set(emulated.launched) == set(PARAMETERS)
    assert set(of_block.nanoseconds) == {*stage_ceilings.RATES, *stage_ceilings.WAITS}
    assert of_block.nanoseconds["reads"] == pytest.approx(1e6 / (32 * 16))
    assert of_block.nanoseconds["bytes"] == pytest.approx(1e6 / (16 * 256 * 16))


def test_what_is_moved_is_looked_at(made, monkeypatch):
    monkeypatch.setattr(ceilings, "follows", lambda at, mask: at)
    with pytest.raises(gpu.Wrong, match="moves: element 0 is"):
        made[0].moves()


def test_wrong_answers_are_not_timed(made, monkeypatch):
    found, _ = made
    monkeypatch.setattr(ceilings, "sums_of_reads", lambda *a: np.zeros(128, np.uint64))
    with pytest.raises(gpu.Wrong, match="random reads: element 0 is"):
        found.reads(64)


def test_a_step_through_the_table_never_comes_back_early():
    at, seen = np.zeros(1, np.uint32), set()
    for _ in range(512):
        seen.add(int(at[0]))
        at = ceilings.follows(at, 511)
    assert len(seen) == 512


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
def test_nvcc_compiles_them():
    assert len(ceilings.compile_kernels((9, 0))) > 1000


def test_they_are_compiled_once(tmp_path, monkeypatch):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\nfor last; do :; done\necho kernels > "$last"\n')
    nvcc.chmod(0o755)
    monkeypatch.setenv("NVCC", str(nvcc))
    monkeypatch.setattr(ceilings, "KEPT", tmp_path / "kept")
    images = [ceilings.compile_kernels(capability) for capability in ((9, 0), (9, 0), (10, 0))]
    assert images == [b"kernels\n"] * 3
    assert ["-arch=sm_90" in line for line in (tmp_path / "log").read_text().splitlines()] == [True, False]
    assert len(list((tmp_path / "kept").iterdir())) == 2
