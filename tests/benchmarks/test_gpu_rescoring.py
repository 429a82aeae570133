"""The experiment on rescoring, on an emulated GPU: a tiny graph and random language models."""

from arcbeam import MissingDependencyError
from benchmarks import registry, rescoring_models, timing
from benchmarks.registry import Context
from tests.benchmarks.on_emulated_gpu import rows_of


def test_rescoring(rescored, monkeypatch):
    experiment = registry.load("gpu_rescoring")
    monkeypatch.setattr(experiment, "LIMITS", (2,))
    rows = rows_of("gpu_rescoring", utterances=1, ngrams=2000)
    places = ["none", "resident", "resident", *["host-direct"] * 4, "host", "host", *[experiment.BUCKETED] * 3]
    with_kenlm = [*places[:9], "cpu", "cpu", *places[9:]]
    assert [row["placement"] for row in rows] == [*with_kenlm * 2, *places * 2]
    assert {row["ngrams"] for row in rows} == {sum(rescored.about["ngrams"]), rows[-1]["ngrams"]}
    assert all(row["spread"] == timing.ms_spread(row) for row in rows)
    assert rows[1]["hits"] == 0.0 and rows[1]["bytes"] > 0
    assert all(("waiting" in row) == (row["placement"] in ("host", "cpu")) for row in rows)

    def missing():
        raise MissingDependencyError("the package kenlm")

    monkeypatch.setattr(rescoring_models, "kenlm", missing)
    assert next(experiment.run(Context(1, 1))) == {"placement": "cpu", "status": "missing: the package kenlm"}
