"""The experiments on streams and on their answers, line by line, on an emulated GPU: tiny inputs."""

import numpy as np
import pytest

from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.harness import registry
from benchmarks.harness.registry import Context
from tests.benchmarks.on_emulated_gpu import StreamPeer, missing, rows_of


def small_one(monkeypatch, name, **more):
    found = registry.load(name)
    for key, value in {"FRAMES": 2, "WARM_UP": 1, "RING": 7, "TURN": 4, **more}.items():
        monkeypatch.setattr(found, key, value)
    return found


@pytest.fixture
def experiment(small, monkeypatch):
    return small_one(monkeypatch, "gpu_streams", WORK=(("any", "any", gpu.NARROW, (1, 3)),), SERVED=(3,), RIVA_ROUNDS=3)


@pytest.fixture
def of_answers(small, monkeypatch):
    return small_one(monkeypatch, "gpu_stream_answers", WORK=("any", "any", gpu.NARROW, (3,)))


def test_rows(experiment):
    """The final results are compared with the twin's: of endless streams, and of those that speak in turn.

    riva is beside endless ones, and has said the same after the same rounds.
    """
    rows = rows_of("gpu_streams", rounds="4", served="17")
    assert [(row["streams"], row["rounds"]) for row in rows] == [(1, 4), (3, 4), (3, 17)]
    assert [row.get("equal") for row in rows] == [100.0, 100.0, None]
    assert all(row["ratio"] == pytest.approx(row["rtfx"] / row["peer_rtfx"]) for row in rows[:2])
    for row in rows:
        assert row["evenness"] == row["p99"] / row["ms"] >= 1.0
        assert row["most"] >= row["p99"] and row["bytes"] > 0


def test_riva_that_is_missing_or_says_something_else(experiment, monkeypatch):
    monkeypatch.setattr(adapters, "make", missing)
    for row in list(experiment.run(Context(1, 6, {"rounds": "4", "served": "5"})))[:2]:
        assert row["status"] == "missing: No module named 'riva_streams'" and "ratio" not in row

    class Late(StreamPeer):
        def decode(self, prepared, last=False):
            return ["what" for _ in super().decode(prepared)]

    monkeypatch.setattr(adapters, "make", lambda name: Late)
    with pytest.raises(gpu.Wrong, match="riva's words differ by"):
        rows_of("gpu_streams", rounds="4", served="5")


def test_results_of_before_have_the_ratio_and_failures_none(experiment):
    assert experiment.evenness({"p99": 3.0, "ms": 2.0}) == 1.5
    assert experiment.evenness({"status": "failed"}) is None


def test_goals_are_those_of_letters(experiment, monkeypatch):
    monkeypatch.setattr(experiment, "WORK", (("char-3gram", "any", gpu.NARROW, (1,)),))
    assert [experiment.goal({"graph": "char-3gram", "streams": n}) for n in (1, 4096, 3)] == [0.2, 5.0, None]
    assert experiment.goal({"graph": "spm512-3gram", "streams": 256}) is None
    assert experiment.goal({"status": "failed"}) is None


def test_as_many_end_in_every_round(experiment):
    class Decoder:
        made = 0

        def stream(self):
            self.made += 1
            return self.made

    speakers = experiment.Speakers(Decoder(), 8, turn=4)
    ends = []
    for number in range(9):
        last = speakers.last(number)
        before = list(speakers.streams)
        speakers.go_on(number, last)
        changed = [one != other for one, other in zip(before, speakers.streams, strict=True)]
        assert changed == last
        ends.append(last)
    assert [sum(last) for last in ends] == [2] * 9
    for place in range(8):
        turns = np.flatnonzero([last[place] for last in ends])
        assert np.all(np.diff(turns) == 4) and speakers.begins[place] == turns[-1] + 1
    forever = experiment.Speakers(Decoder(), 2, turn=None)
    forever.go_on(0, forever.last(0))
    assert forever.streams == [1, 2] and forever.begins == [0, 0]


def test_rows_of_answers(of_answers):
    rows = rows_of("gpu_stream_answers", rounds="6")
    assert [row["asked"] for row in rows] == [name for name, _ in of_answers.REQUESTED]
    for row in rows:
        assert row["times"] == row["ms"] / rows[0]["ms"] and row["p99"] >= row["ms"]


def test_other_answers_are_no_row(of_answers, monkeypatch):
    seen = iter(range(99))
    monkeypatch.setattr(of_answers, "answers", lambda partial: next(seen))
    with pytest.raises(gpu.Wrong, match="stream 0: answers differ from the twin's"):
        rows_of("gpu_stream_answers", rounds="6")
