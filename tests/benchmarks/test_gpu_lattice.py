"""The experiment on lattices on an emulated GPU: a tiny input, and a peer that is a stub."""

import pytest

from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.engine import profiler
from benchmarks.experiments import gpu_lattice
from benchmarks.harness import registry
from benchmarks.harness.registry import Context
from tests.benchmarks.on_emulated_gpu import Entry, Peer, rows_of
from tests.decode.random_graphs import random_log_probs


def events(decode):
    decode()
    spans = [("kernel", 2000.0), ("kernel", 500.0), ("gpu_memcpy", 250.0), ("cpu_op", 9.0)]
    return [{"ph": "X", "cat": kind, "name": "arcbeam", "dur": took} for kind, took in spans]


def test_rows(small, monkeypatch):
    monkeypatch.setattr(profiler, "record", events)
    rows = rows_of("gpu_lattice")
    assert [(row["search"], row["lattice_beam"]) for row in rows] == [("17 / 10,000", 8.0), ("12 / 5,000", 4.0)]
    for row in rows:
        assert (row["among"], row["confidences_within"], row["missing"], row["other_words"]) == (100.0, 100.0, [], [])
        assert (row["mbr_of_one"], row["largest_difference"], row["other_confidences"]) == (0, 0.0, [])
        assert (row["why_other_confidence"], row["not_explained"]) == ("", 0)
        assert row["oracle_10"] <= row["oracle_1"] == 0.0 == row["riva_oracle_1"] == row["riva_oracle_10"]
        assert min(row["nbest_ratio"], row["riva_mbr_ratio"], row["alone_mbr_ms"]) > 0
        assert (row["lattice_kernel_ms"], row["lattice_copies_ms"], row["lattice_kernel_count"]) == (2.5, 0.25, 2)
        assert row["links"] >= row["tokens"] - 1 > 1 and row["entries"] == row["riva_entries"] > 1
        assert 0 < row["numbering_ms"] < row["lattice_ms"] * 10 and row["answers_ms"] > 0
    assert {kernel for kernel, _ in small.launched} <= {"wide", "dense", "cluster"}


def test_no_profiler_and_no_riva(small, monkeypatch):
    def make(name):
        raise ImportError(f"No module named {name!r}")

    def record(decode):
        raise RuntimeError("torch has no CUPTI here")

    monkeypatch.setattr(adapters, "make", make)
    monkeypatch.setattr(profiler, "record", record)
    for row in registry.load("gpu_lattice").run(Context(1, 3)):
        assert row["status"] == "missing: No module named 'riva'"
        assert row["profile"] == "none: RuntimeError: torch has no CUPTI here"
        assert row["lattice_ratio"] > 0 and "nbest_ratio" not in row


def test_riva_says_something_else(small, monkeypatch):
    class Other(Peer):
        def decode_nbest(self, prepared):
            first, *rest = super().decode_nbest(prepared)
            return [[*first, Entry([1, 2, 3, 4, 5], -9.0)], *rest]

        def decode_mbr(self, prepared):
            rest = super().decode_mbr(prepared)[1:]
            return [[("what", 0.0, 0.0, 1.0)], *([(w, a, b, c - 0.5) for w, a, b, c in words] for words in rest)]

        def lattices(self, prepared):
            raise RuntimeError("no lattices today")

    monkeypatch.setattr(adapters, "make", lambda name: Other)
    monkeypatch.setattr(profiler, "record", events)
    for row in registry.load("gpu_lattice").run(Context(1, 6)):
        assert row["riva_lattices"] == "none: RuntimeError: no lattices today"
        assert row["missing"] == [
            "utterance 0, riva's entry 10 of score -9.000, not in our lattice: ['<1>', '<2>', '<3>', '<4>', '<5>']"
        ]
        assert row["why_missing"] == "1 not in our lattice"
        assert row["other_words"][0].endswith("riva: ['what']") and len(row["other_words"]) == 1
        assert row["among"] < 100 and row["confidences_within"] == 0 and row["largest_difference"] == 1.0
        assert row["not_explained"] == row["mbr_words"] > 1 and row["why_other_confidence"] == ""
        assert row["mbr_of_one"] >= 1 and len(row["other_confidences"]) == min(20, row["mbr_words"])


@pytest.mark.parametrize("what", ["words of entry", "times of entry"])
def test_arrays_that_are_not_the_paths_are_not_timed(small, what):
    files = gpu_lattice.graphs.get("any")
    decoder = gpu.decoder(files.graph, gpu.WIDE, device="cpu", frame_shift=0.04)
    found = decoder.decode([random_log_probs(1, 30, 12)], nbest=3)
    gpu_lattice.compare_arrays(files.graph, found)
    labels = found[0]._results.answers.labels
    (labels.labels if what == "words of entry" else labels.ends)[-1] += 1
    with pytest.raises(gpu.Wrong, match=f"utterance 0: the {what} {len(found[0].nbest) - 1} are"):
        gpu_lattice.compare_arrays(files.graph, found)


@pytest.mark.parametrize("what", ["lattice", "n-best list", "confidences"])
def test_answers_that_are_not_the_twins_are_not_timed(small, monkeypatch, what):
    experiment = registry.load("gpu_lattice")
    decode = gpu.decoder

    def another(graph, options, device="cuda", **more):
        wrong = {"lattice": {"lattice_beam": 3.0}, "confidences": {"posterior_scale": 0.5}}.get(what, {})
        made = decode(graph, options, device, **(more | (wrong if device == "cpu" else {})))
        if what == "n-best list" and device == "cpu":
            monkeypatch.setattr(type(made), "decode", with_fewer_entries(type(made).decode, made))
        return made

    def with_fewer_entries(right, of):
        def fewer(self, *arguments, **asked):
            return right(self, *arguments, **(asked | ({"nbest": 2} if self is of else {})))

        return fewer

    monkeypatch.setattr(gpu, "decoder", another)
    with pytest.raises(gpu.Wrong, match=what if what != "confidences" else "n-best list|confidences"):
        list(experiment.run(Context(1, 3)))
