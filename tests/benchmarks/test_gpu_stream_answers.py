"""The experiment on answers of streams, line by line, on an emulated GPU: tiny inputs."""

import pytest

from benchmarks.adapters import gpu
from benchmarks.harness import registry
from tests.benchmarks.on_emulated_gpu import rows_of


@pytest.fixture
def experiment(small, monkeypatch):
    found = registry.load("gpu_stream_answers")
    monkeypatch.setattr(found, "WORK", ("any", "any", gpu.NARROW, (3,)))
    for name, value in (("FRAMES", 2), ("WARM_UP", 1), ("RING", 7), ("TURN", 4)):
        monkeypatch.setattr(found, name, value)
    return found


def test_rows(experiment):
    rows = rows_of("gpu_stream_answers", rounds="6")
    assert [row["asked"] for row in rows] == [asked for asked, _ in experiment.ASKED]
    for row in rows:
        assert row["times"] == row["ms"] / rows[0]["ms"] and row["p99"] >= row["ms"]


def test_other_answers_are_no_row(experiment, monkeypatch):
    seen = iter(range(99))
    monkeypatch.setattr(experiment, "answers", lambda partial: next(seen))
    with pytest.raises(gpu.Wrong, match="stream 0: answers differ from the twin's"):
        rows_of("gpu_stream_answers", rounds="6")
