"""The experiment on rescoring, on an emulated GPU: a tiny graph and small language models."""

import os

import pytest

from arcbeam import MissingDependencyError
from benchmarks.adapters import gpu
from benchmarks.data import datasets
from benchmarks.engine import rescoring_models
from benchmarks.harness import registry, timing
from benchmarks.harness.registry import Context
from tests.benchmarks.on_emulated_gpu import rows_of


@pytest.mark.long  # every placement at both beams
def test_rescoring(rescored, monkeypatch):
    experiment = registry.load("gpu_rescoring")
    monkeypatch.setattr(experiment, "LIMITS", (3,))
    rows = rows_of("gpu_rescoring", utterances=1)
    places = [
        "none", "resident", "resident", *["host-direct"] * 4, "host", "host", "cpu", "cpu", *[experiment.BUCKETED] * 3,
    ]  # fmt: skip
    assert [row["placement"] for row in rows] == [*places, experiment.TWIN, experiment.TWIN] * 2
    assert {row["ngrams"] for row in rows} == {sum(rescored.about["ngrams"])}
    assert all(row["spread"] == timing.ms_spread(row) for row in rows)
    for row in rows:
        on_gpu = row["placement"] not in ("none", experiment.TWIN)
        assert ("of_twin" in row) == on_gpu and ("of_cores" in row) == (on_gpu and row["hypotheses"] == 3)
        assert row.get("utterances", 1) == 1
    assert rows[1]["hits"] == 0.0 and rows[1]["bytes"] > 0
    assert all(("waiting" in row) == (row["placement"] in ("host", "cpu")) for row in rows)


def without_kenlm():
    raise MissingDependencyError("the package kenlm")


def test_beside_one_core_and_all(rescored, monkeypatch):
    """Each ratio is for all utterances, also where the twin has the first of them alone."""
    experiment = registry.load("gpu_rescoring")
    for name, value in {"LIMITS": (3,), "SHARES": (0.0,), "OF_TWIN": 1, "MOST_TWIN_S": 0.0}.items():
        monkeypatch.setattr(experiment, name, value)
    monkeypatch.setattr(gpu, "BEAMS", gpu.BEAMS[1:])
    monkeypatch.setattr(rescoring_models, "kenlm", without_kenlm)
    first, second = datasets.load("any").lengths[:2]
    rows = list(experiment.run(Context(1, 2)))[1:]
    *others, one, every = rows
    assert [(row["placement"], row["cores"]) for row in (one, every)] == [
        (experiment.TWIN, 1), (experiment.TWIN, len(os.sched_getaffinity(0))),
    ]  # fmt: skip
    for row, key in ((one, "of_twin"), (every, "of_cores")):
        assert row["utterances"] == 1 and row["of_resident"] > 0 and row["tokens"] > 0
        assert row["rtfx"] == pytest.approx(0.04 * first / (1e-3 * row["ms"]))
        for other in others:
            if other["placement"] != "none":
                assert other[key] == pytest.approx((first + second) / first * row["ms"] / other["ms"])


def test_the_twin_has_to_say_the_same(rescored, monkeypatch):
    experiment = registry.load("gpu_rescoring")
    compare, calls = gpu.compare, []

    def without_the_last(found, wanted):
        calls.append(len(found))
        compare(found, wanted[:-1] if len(calls) == 3 else wanted)  # of `none`, of `resident`, of one core

    monkeypatch.setattr(gpu, "compare", without_the_last)
    monkeypatch.setattr(experiment, "LIMITS", (3,))
    with pytest.raises(gpu.Wrong, match="expected 0 answers, got 1"):
        list(experiment.run(Context(1, 1)))
    assert len(calls) == 3


def test_without_kenlm(rescored, monkeypatch):
    monkeypatch.setattr(rescoring_models, "kenlm", without_kenlm)
    experiment = registry.load("gpu_rescoring")
    assert next(experiment.run(Context(1, 1))) == {"placement": "cpu", "status": "missing: the package kenlm"}
