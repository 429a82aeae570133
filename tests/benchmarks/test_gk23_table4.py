"""Table 4: what queues predict, by hand; every row is there and adds up; what is wrong is found."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import CtcDecoder, UnsupportedError
from benchmarks import papers
from benchmarks.experiments import gk23_table4
from benchmarks.harness.registry import Context
from benchmarks.tasks import stream_load
from tests.benchmarks.test_contest import small
from tests.benchmarks.test_gk23 import workload

__all__ = ["small", "workload"]

SHORT = {"streams": "8", "frames": "2", "seconds": "0.2"}


def test_predictions_by_hand():
    assert stream_load.wait_one_by_one(100.0, [0.005]) == pytest.approx([0.5 * 0.005 / (2 * 0.5)] * 2)
    assert stream_load.wait_one_by_one(100.0, [0.001, 0.009]) == pytest.approx([0.0025, 100 * 41e-6 / (2 * 0.5)])
    assert stream_load.wait_one_by_one(100.0, [0.01]) == (float("inf"), float("inf"))
    assert stream_load.wait_together(0.25, [0.008]) == pytest.approx([0.001, 0.001])
    assert stream_load.wait_together(1.2, [0.001, 0.003]) == pytest.approx([0.001, 0.00125])


@pytest.mark.parametrize("services", [[0.6], [0.2, 1.0]])
def test_a_server_waits_as_long_as_predicted(services):
    """A million customers that come at random, by Lindley's recursion."""
    draw, wait, total = random.Random(1), 0.0, 0.0
    for _ in range(1_000_000):
        total += wait
        wait = max(0.0, wait + draw.choice(services) - draw.expovariate(1.0))
    assert total / 1_000_000 == pytest.approx(stream_load.wait_one_by_one(1.0, services)[1], rel=0.03)


def test_rows(workload):
    rows = list(gk23_table4.run(Context(options=workload | SHORT | {"set": "throughput"})))
    assert [(row["beam"], row["mode"]) for row in rows] == [
        (beam, mode) for beam in gk23_table4.BEAMS for mode in (*gk23_table4.MODES, gk23_table4.APART)
    ]
    for row in rows:
        assert row["streams"] == 8 and row["chunks"] > 0 and row["finals"] > 0 and row["rtfx"] > 0
        assert row["total_p99"] >= 0.5 * row["total_ms"] > 0
        if row["mode"] == gk23_table4.APART:
            continue
        assert row["total_ms"] >= row["compute_ms"] + row["queue_ms"] > 0
        assert ("predicted_ms" in row) == ("late_ms" in row) == (row["mode"] != "full load")
        assert (row["chunks_a_round"] == 1.0) if row["mode"] == "one by one" else (row["chunks_a_round"] >= 1.0)


def test_without_streams_the_row_says_so(workload, monkeypatch):
    def stream(self):
        raise UnsupportedError("not here")

    monkeypatch.setattr(CtcDecoder, "stream", stream)
    rows = list(gk23_table4.run(Context(options=workload | SHORT | {"set": "throughput", "beam": "12"})))
    assert [(row["beam"], row["status"]) for row in rows] == [(12.0, "missing: not here")]


def test_a_result_that_is_not_the_whole_is_found():
    final, whole = (SimpleNamespace(arcs=np.arange(3), score=score) for score in (1.0, 2.0))
    decoder = SimpleNamespace(decode=lambda batch: [whole] * len(batch))
    load = stream_load.Load(finals=[(1, whole)])
    assert stream_load.check(load, decoder, [None, None]) == 1
    load.finals.append((0, final))
    with pytest.raises(AssertionError, match="utterance 0: a stream is not what the whole"):
        stream_load.check(load, decoder, [None, None])


def test_the_paper_beside():
    lines = "\n".join(papers.load("GK23").beside("gk23_table4"))
    assert "| 78 ms |" in lines and "acoustic model" in lines
