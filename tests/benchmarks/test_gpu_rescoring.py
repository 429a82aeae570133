"""The experiment on rescoring, on an emulated GPU: a tiny graph and small language models."""

import os

import pytest

from arcbeam import MissingDependencyError
from benchmarks import datasets, gpu, registry, rescoring_models, timing
from benchmarks.registry import Context
from tests.benchmarks.on_emulated_gpu import rows_of

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1")


def test_rescoring(rescored, monkeypatch):
    experiment = registry.load("gpu_rescoring")
    monkeypatch.setattr(experiment, "LIMITS", (2,))
    rows = rows_of("gpu_rescoring", utterances=1, ngrams=9000)
    places = [
        "none", "resident", "resident", *["host-direct"] * 4, "host", "host", "cpu", "cpu", *[experiment.BUCKETED] * 3,
    ]  # fmt: skip
    assert [row["placement"] for row in rows] == places * 2 + [*places, experiment.TWIN, experiment.TWIN] * 2
    assert {row["ngrams"] for row in rows} == {sum(rescored.about["ngrams"]), rows[-1]["ngrams"]}
    assert rows[-1]["ngrams"] > 4500
    assert all(row["spread"] == timing.ms_spread(row) for row in rows)
    assert rows[1]["hits"] == 0.0 and rows[1]["bytes"] > 0
    assert all(("waiting" in row) == (row["placement"] in ("host", "cpu")) for row in rows)


def test_beside_one_core_and_all(rescored, monkeypatch):
    """With 3 hypotheses; each ratio is for all utterances, also where the twin has some of them."""
    experiment = registry.load("gpu_rescoring")
    monkeypatch.setattr(experiment, "LIMITS", (1, 3))
    monkeypatch.setattr(experiment, "OF_TWIN", 2)
    monkeypatch.setattr(gpu, "BEAMS", gpu.BEAMS[:1])
    frames = datasets.load("any").lengths
    for most, count in ((1e9, len(frames)), (0.0, 2)):
        monkeypatch.setattr(experiment, "MOST_TWIN_S", most)
        rows = list(experiment.run(Context(2, len(frames), {"ngrams": "0"})))
        of_twins = [row for row in rows if row["placement"] == experiment.TWIN]
        assert [(row["cores"], row["hypotheses"]) for row in of_twins] == [(1, 3), (len(os.sched_getaffinity(0)), 3)]
        longer = sum(frames) / sum(frames[:count])
        for row, key in zip(of_twins, ("of_twin", "of_cores"), strict=True):
            assert row["utterances"] == count and row["of_resident"] > 0 and row["tokens"] > 0
            assert row["rtfx"] == pytest.approx(0.04 * sum(frames[:count]) / (1e-3 * row["ms"]))
            for other in rows:
                if other["hypotheses"] == 3 and other["placement"] not in ("none", experiment.TWIN):
                    assert other[key] == pytest.approx(longer * row["ms"] / other["ms"])
        assert all(("of_cores" in r) == (r["hypotheses"] == 3) for r in rows if r["placement"] == "resident")
        assert all(r["of_twin"] > 0 for r in rows if r["placement"] == "resident")


def test_the_twin_has_to_say_the_same(rescored, monkeypatch):
    experiment = registry.load("gpu_rescoring")
    compare, calls = gpu.compare, []

    def without_the_last(found, wanted):
        calls.append(len(found))
        compare(found, wanted[:-1] if len(calls) == 3 else wanted)  # of `none`, of `resident`, of one core

    monkeypatch.setattr(gpu, "compare", without_the_last)
    monkeypatch.setattr(experiment, "LIMITS", (3,))
    with pytest.raises(gpu.Wrong, match="expected 1 answers, got 2"):
        list(experiment.run(Context(1, 2, {"ngrams": "0"})))
    assert len(calls) == 3


def test_without_kenlm(rescored, monkeypatch):
    def missing():
        raise MissingDependencyError("the package kenlm")

    monkeypatch.setattr(rescoring_models, "kenlm", missing)
    experiment = registry.load("gpu_rescoring")
    assert next(experiment.run(Context(1, 1))) == {"placement": "cpu", "status": "missing: the package kenlm"}
