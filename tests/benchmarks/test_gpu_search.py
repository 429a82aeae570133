"""The experiments on the search by itself, line by line, on an emulated GPU: tiny inputs."""

from benchmarks.harness import registry
from tests.benchmarks.on_emulated_gpu import has_matplotlib, rows_of


def test_pieces(small):
    rows = rows_of("gpu_pieces")
    assert [row["search"] for row in rows] == ["17 / 10,000", "12 / 5,000"] * 2
    assert all(row["tokens"] > 0 and row["arcs_a_token"] > 0 for row in rows)


def test_single(small):
    rows = rows_of("gpu_single", utterances=3)
    assert [row["kind"] for row in rows[:2]] == ["short", "long"]
    assert rows[1]["frames"] == 3 * rows[0]["frames"]


def test_batch(small, tmp_path):
    rows = rows_of("gpu_batch", utterances=4)
    assert [row["batch"] for row in rows] == [1, 2, 4] * 2
    registry.load("gpu_batch").draw([*rows, {"status": "failed"}], tmp_path / "batch.png") if has_matplotlib() else None
    assert not has_matplotlib() or (tmp_path / "batch.png").stat().st_size > 1000
