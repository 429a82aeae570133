"""The experiments that decode beside riva and NeMo, on an emulated GPU: tiny inputs, peers that are stubs."""

import pytest

from benchmarks import adapters
from benchmarks.adapters import Answer, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import registry
from benchmarks.harness.registry import Context
from tests.benchmarks.on_emulated_gpu import Peer, in_this_process, missing, rows_of


def test_riva(small):
    rows = rows_of("gpu_riva")
    assert [row["search"] for row in rows] == ["17 / 10,000", "12 / 5,000"]
    assert all(row["equal"] == 100.0 and row["wer"] == row["peer_wer"] and row["ratio"] > 0 for row in rows)
    assert [tried[:3] for tried in rows[0]["tried"]] == [
        [200, 50, 10_000_000], [200, 50, None], [264, 50, None], [264, 200, None],
    ]  # fmt: skip


def test_riva_that_is_missing_or_wrong(small, monkeypatch):
    monkeypatch.setattr(adapters, "make", missing)
    rows = list(registry.load("gpu_riva").run(Context(1, 3)))
    assert all(row["status"] == "missing: No module named 'riva'" and row["rtfx"] > 0 for row in rows)

    def none_of_1024(name, progress=None):
        if "1024" in name:
            raise datasets.DataMissing("no books")
        return files

    files = graphs.get("any")
    monkeypatch.setattr(graphs, "get", none_of_1024)
    monkeypatch.setattr(registry.load("gpu_riva"), "WORKLOADS", (("spm1024-3gram", "workload-1024"),))
    assert list(registry.load("gpu_riva").run(Context(1, 1))) == [
        {"graph": "spm1024-3gram", "set": "workload-1024", "status": "missing: no books"}
    ]
    monkeypatch.setattr(graphs, "get", lambda name, progress=None: files)
    monkeypatch.setattr(registry.load("gpu_riva"), "WORKLOADS", gpu.WORKLOADS)

    class Deaf(Peer):
        def answers(self, decoded):
            return [Answer("what", 0.0, True) for _ in decoded]

    monkeypatch.setattr(adapters, "make", lambda name: Deaf)
    with pytest.raises(gpu.Wrong, match="riva's words differ by"):
        list(registry.load("gpu_riva").run(Context(1, 3)))


def test_rivas_words_are_compared_one_by_one():
    """One word of one long text may differ; a text is the same or not."""
    same_words = registry.load("gpu_riva").same_words
    assert same_words(["one two three"], ["one two four"]) == 0.0
    assert same_words(["one two", "three"], ["one two", "four"]) == 50.0
    with pytest.raises(gpu.Wrong, match="riva's words differ by 67% from ours; the first: 'one two', 'one three'"):
        same_words(["one two", "four"], ["one three", "five"])


def test_riva_without_room_for_so_many_tokens(small, monkeypatch):
    class Small(Peer):
        def __init__(self, files, options, **more):
            if more["tokens"]:
                raise MemoryError("std::bad_alloc")
            super().__init__(files, options, **more)

    monkeypatch.setattr(adapters, "make", lambda name: Small)
    monkeypatch.setattr(gpu, "rows_or_failure", in_this_process)
    rows = list(registry.load("gpu_riva").run(Context(1, 2)))
    assert all("status" not in row and row["ratio"] > 0 and len(row["tried"]) == 3 for row in rows)


def test_nemo(small, monkeypatch):
    experiment = registry.load("gpu_nemo")
    monkeypatch.setattr(experiment, "OUR_BEAMS", ((0.5, 5), (17.0, 10_000)))
    rows = rows_of("gpu_nemo")
    assert [row["peer_beam"] for row in rows] == [4, 8, 16]
    assert all(row["wer"] <= row["peer_wer"] and row["worse"] == 0 for row in rows)


def test_which_beam_stands_beside_nemos():
    experiment = registry.load("gpu_nemo")

    class Found:
        def __init__(self, score):
            self.score = score

    ours = [("narrow", None, [Found(-5.0)], 3.0), ("middle", None, [Found(-4.0)], 2.0), ("wide", None, [], 2.0)]
    said = [Answer("", 4.0, True)]
    assert experiment.match(ours, said, 3.5)[0] == "middle"  # the narrow one finds a worse path
    assert experiment.match(ours, [], 3.5)[0] == "narrow"
    assert experiment.match(ours, said, 1.0)[0] == "wide"
    assert experiment.scores([Found(-1.0), Found(-2.0), Found(-3.0)], [Answer("", 2.0, True)] * 3) == (1 / 3, 1 / 3)


def test_peers_that_break_leave_our_figures(small, monkeypatch):
    class Broken(Peer):
        def decode(self, prepared):
            raise RuntimeError("CUDA error 700")

    monkeypatch.setattr(adapters, "make", lambda name: Broken)
    monkeypatch.setattr(gpu, "rows_or_failure", in_this_process)
    monkeypatch.setattr(registry.load("gpu_nemo"), "OUR_BEAMS", ((17.0, 10_000),))
    for name in ("gpu_riva", "gpu_nemo"):
        for row in registry.load(name).run(Context(1, 2)):
            assert row["status"].startswith("failed: ") and "CUDA error 700" in row["status"]
            assert row["rtfx"] > 0 and "ratio" not in row
