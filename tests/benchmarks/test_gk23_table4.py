"""Table 4: what queues predict, by hand; every row is there and adds up; what is wrong is found."""

import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import Batcher, CtcDecoder, Graph, UnsupportedError
from benchmarks.data import datasets
from benchmarks.experiments import gk23_table4
from benchmarks.harness.registry import Context
from benchmarks.tasks import gk23, stream_load, window_load
from tests.benchmarks.test_contest import log_probs, small
from tests.benchmarks.test_gk23 import workload

__all__ = ["small", "workload"]

SHORT = {"streams": "8", "frames": "2", "seconds": "0.2"}


def test_rows(workload):
    rows = list(gk23_table4.run(Context(options=workload | SHORT | {"set": "throughput", "model_streams": "0"})))
    assert [(row.get("beam"), row["mode"]) for row in rows] == [
        *((beam, mode) for beam in gk23_table4.BEAMS for mode in (*gk23_table4.MODES, gk23_table4.APART)),
    ]
    for row in rows:
        assert row["streams"] == 8 and row["chunks"] > 0 and row["finals"] > 0 and row["rtfx"] > 0
        assert row["total_p99"] >= row["total_median"] > 0 and row["total_p99"] >= 0.5 * row["total_ms"] > 0
        if row["mode"] == gk23_table4.APART:
            continue
        assert row["total_ms"] >= row["compute_ms"] + row["queue_ms"] > 0
        assert ("late_ms" in row) == (row["mode"] != "full load")
        assert (row["chunks_a_round"] == 1.0) if row["mode"] == "one by one" else (row["chunks_a_round"] >= 1.0)


class Ears:
    """An acoustic model that is none: it notes the batches that it gets."""

    name, device, settings, batch = "ears", "cpu", "by ear", 3

    def __init__(self):
        self.lm_context = []

    def load(self, waves):
        return waves

    def features(self, samples):
        return samples

    def log_probs(self, features):
        self.lm_context.append([wave.tolist() for wave in features])
        return np.zeros((len(features), 2, 4), np.float32), [2] * len(features)


HOP = 320  # samples of a frame


@pytest.fixture
def ears(monkeypatch):
    """A recording of each utterance, and a model that hears these."""
    recordings = [SimpleNamespace(id=i, samples=lambda: np.ones(2 * HOP, np.float32)) for i in "zyx"]
    model = Ears()
    monkeypatch.setattr("benchmarks.data.corpus.load", lambda name: SimpleNamespace(recordings=recordings))
    monkeypatch.setattr(gk23, "open_model", lambda context, batch: model)
    return model


def test_the_row_with_an_acoustic_model(workload, ears):
    rows = list(gk23_table4.run(Context(options=workload | SHORT | {"beam": "12", "model_streams": "5"})))
    [row] = [row for row in rows if row["mode"] == gk23_table4.IN_LOOP]
    assert (row["streams"], row["settings"]) == (5, "ears, by ear, on cpu")
    assert row["chunks"] > 0 and row["finals"] > 0
    assert max(map(len, ears.lm_context)) <= ears.batch and sum(map(len, ears.lm_context)) >= row["chunks"]
    assert row["total_ms"] >= row["model_ms"] + row["compute_ms"] > 0


@pytest.mark.parametrize("ids", ["y", "w"])
def test_utterances_without_a_recording_are_left_out(workload, ears, monkeypatch, ids):
    recordings = [SimpleNamespace(id=i, samples=lambda: np.ones(2 * HOP, np.float32)) for i in ids]
    monkeypatch.setattr("benchmarks.data.corpus.load", lambda name: SimpleNamespace(recordings=recordings))
    rows = gk23_table4.run(Context(options=workload | SHORT | {"beam": "12", "model_streams": "2"}))
    [row] = [row for row in rows if row["mode"] == gk23_table4.IN_LOOP]
    if ids == "y":
        assert row["chunks"] > 0 and row["finals"] > 0 and "status" not in row
    else:
        assert "has no recording of an utterance" in row["status"] and "chunks" not in row


def test_windows_have_their_context_and_their_frames():
    rows = np.arange(5)
    audio = window_load.Recording(np.repeat(np.arange(1.0, 6.0, dtype=np.float32), HOP), rows, 0.02, 2)
    cut = [audio[at : at + 2] for at in range(0, len(audio), 2)]
    windows = [(one.samples[::HOP].tolist(), one.rows.tolist(), len(one)) for one in cut]
    context = [0.0] * 5
    assert windows[0] == ([*context, 1, 2, 3, 4, 5, 0, 0], [0, 1], 2)
    assert windows[-1] == ([0, 1, 2, 3, 4, 5, *context, 0], [4], 1)
    long = window_load.Recording(np.ones(HOP, np.float32), np.arange(60), 0.02, 2)
    assert {len(long[at : at + 2].samples) for at in range(0, 60, 2)} == {12 * HOP}


def test_an_error_of_a_chunk_or_of_the_model_is_in_its_future(workload, ears, monkeypatch):
    decoder = CtcDecoder(Graph.load(workload["graph"]), device="cpu")
    with Batcher(decoder) as batcher:
        server = window_load.WindowServer(batcher, ears, 4)
        audio = window_load.Recording(np.ones(3 * HOP, np.float32), log_probs([1, 0, 3]).astype(np.float32), 0.02, 2)
        stream = decoder.stream()
        found = [server.submit(stream, audio[at : at + 2], last=at == 2) for at in (0, 2)]
        assert found[-1].result(60).text == "ah sea" and found[-1].result().model_seconds > 0
        assert "after the last" in str(server.submit(stream, audio[0:2]).exception(60))
        monkeypatch.setattr(ears, "features", lambda samples: samples[9])
        assert isinstance(server.submit(decoder.stream(), audio[0:2]).exception(60), IndexError)
        server.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [(ModuleNotFoundError(name="torch"), "the package torch"), (datasets.DataMissing("no audio"), "no audio")],
)
def test_without_a_model_the_row_says_so(workload, ears, monkeypatch, error, said):
    def open_model(context, batch):
        raise error

    monkeypatch.setattr(gk23, "open_model", open_model)
    rows = list(gk23_table4.run(Context(options=workload | SHORT | {"beam": "12"})))
    [row] = [row for row in rows if row["mode"] == gk23_table4.IN_LOOP]
    assert row["status"] == f"missing: {said}"


def test_a_clock_stops_when_the_future_is_done():
    """Not when somebody looks at the result, nor when its text is made."""
    future = Future()
    submitted = stream_load.Submitted(lambda stream, rows, last: future)
    submitted.submit(stream_load.Turn(0, None, 0, [], False))
    future.set_result(SimpleNamespace(round=(0.0, 0.0)))
    done = time.perf_counter()
    time.sleep(0.01)
    said = submitted.done.get()
    assert said.submitted <= said.done <= done


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
