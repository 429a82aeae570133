"""The experiments on the search by itself, line by line, on an emulated GPU: tiny inputs."""

import numpy as np
import pytest

from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.data import datasets
from benchmarks.harness import registry
from benchmarks.harness.registry import Context
from tests.benchmarks.on_emulated_gpu import Peer, has_matplotlib, in_this_process, rows_of


def test_pieces(small):
    rows = rows_of("gpu_pieces")
    assert [row["search"] for row in rows] == ["17 / 10,000", "12 / 5,000"] * 2
    assert all(row["tokens"] > 0 and row["arcs_a_token"] > 0 for row in rows)


def test_single(small):
    rows = rows_of("gpu_single", utterances=3)
    assert [row["kind"] for row in rows[:2]] == ["short", "long"]
    assert rows[1]["frames"] == 3 * rows[0]["frames"]
    assert all(row["equal"] == 100.0 and row["ratio"] == pytest.approx(row["rtfx"] / row["peer_rtfx"]) for row in rows)


def test_batch(small, tmp_path):
    rows = rows_of("gpu_batch", utterances=4)
    assert [row["batch"] for row in rows] == [1, 2, 4] * 2
    registry.load("gpu_batch").draw([*rows, {"status": "failed"}], tmp_path / "batch.png") if has_matplotlib() else None
    assert not has_matplotlib() or (tmp_path / "batch.png").stat().st_size > 1000


@pytest.fixture
def letters(rescored, monkeypatch):
    experiment = registry.load("gpu_letters")
    monkeypatch.setattr(experiment, "PHRASES", 5)
    monkeypatch.setattr(experiment, "FRAMES", 3)
    return experiment


@pytest.mark.filterwarnings("ignore:boost. :UserWarning")
def test_letters(letters):
    rows = rows_of("gpu_letters", utterances=3)
    assert [(row["measure"], row["search"]) for row in rows] == [
        (work.measure, gpu.beam_text(work.options)) for work in letters.WORK
    ]
    assert [row["goal_ms"] for row in rows if "goal_ms" in row] == [3.5, 10.0, 8.0, 7.0]
    assert all(row["equal"] == 100.0 and row["ratio"] > 0 for row in rows[:3])
    assert all(row["share"] > 0 and "peer_ms" not in row for row in rows[4:])


def test_pieces_of_letters(letters):
    dataset = datasets.load("any")
    cut = letters.pieces(dataset, 3)
    assert list(cut.lengths) == [3] * sum(int(n) // 3 for n in dataset.lengths)
    assert cut.utterances[1].tobytes() == np.asarray(dataset.utterances[1][:3]).tobytes()
    assert cut.references[1] == dataset.references[1] and len(set(cut.ids)) == len(cut.ids)


def test_letters_where_riva_ends_its_process(letters, monkeypatch):
    class Broken(Peer):
        def decode(self, prepared):
            raise RuntimeError("CUDA error 700")

    monkeypatch.setattr(adapters, "make", lambda name: Broken)
    monkeypatch.setattr(gpu, "rows_or_failure", in_this_process)
    monkeypatch.setattr(letters, "WORK", letters.WORK[:1])
    [row] = letters.run(Context(1, 2))
    assert row["status"].startswith("failed: ") and "CUDA error 700" in row["status"]
    assert row["ms"] > 0 and "peer_ms" not in row
