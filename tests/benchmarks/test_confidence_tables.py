"""The experiments of n-best lists, confidences and lattices: their measures by hand, and their rows on tiny sets."""

import struct

import numpy as np
import pytest

from arcbeam import Graph
from benchmarks.adapters import distinct
from benchmarks.experiments import confidence_calibration, lattice_cpu, nbest_peers
from benchmarks.harness import plots
from benchmarks.harness.registry import Context
from benchmarks.tasks import oracle
from tests.benchmarks.tiny import dataset_of, give, graph_of_words
from tests.decode.random_graphs import random_graph, random_log_probs

UTTERANCES = 40


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Every graph and every set is a tiny one, whose references are not what the search says."""
    files = graph_of_words(tmp_path / "tiny.arcbeam")
    batch = [random_log_probs(seed, 10, 12) for seed in range(UTTERANCES)]
    random = np.random.default_rng(1)
    found = lattice_cpu.arcbeam.CtcDecoder(files.graph, device="cpu").decode(batch, nbest=50)
    texts = [one.nbest[int(random.integers(len(one.nbest)))].text for one in found]
    give(monkeypatch, files, lambda name, utterances=None: dataset_of(name, batch, texts))


def test_calibration_error_by_hand():
    values = np.array([0.95, 0.95, 0.15, 1.0])
    right = np.array([True, False, False, True])
    # In ten bins: |1.95 + 1.0 - 2| words in the last one, |0.15 - 0| in the second, of four words.
    assert confidence_calibration.expected_calibration_error(values, right, 10) == pytest.approx((0.9 + 0.15) / 4)
    assert confidence_calibration.expected_calibration_error(np.zeros(0), np.zeros(0, bool)) == 0.0


def test_calibration_rows(tiny, monkeypatch):
    monkeypatch.setattr(confidence_calibration, "LATTICE_BEAMS", (8.0,))
    rows = list(confidence_calibration.run(Context(options={"graph": "char-3gram"})))
    assert len(rows) == 2 * 3  # acoustic scales, sets
    for row in rows:
        assert row["nce"] >= max(row["nce_one"], row["nce_default"]) and 0 < row["wrong"] < 100
        assert 0 <= row["ece"] <= 100 and 1 / 16 <= row["scale"] <= 16
    assert len({(row["acoustic_scale"], row["lattice_beam"], row["scale"]) for row in rows}) == 2


def test_lattice_rows(tiny):
    rows = list(lattice_cpu.run(Context(repeats=2, options={"graph": "char-3gram"})))
    assert [row["asked"] for row in rows[:6]] == [*lattice_cpu.ASKED, lattice_cpu.TEXTS]
    assert len(rows) == 12 and all(row["ratio"] > 0 for row in rows)
    assert rows[0]["ratio"] == 1 and rows[0]["links"] is None and rows[1]["links"] > 0
    assert 1 < rows[2]["entries"] <= lattice_cpu.NBEST and rows[3]["entries"] is None


def test_answers_that_disagree_are_not_timed():
    graph = Graph(**random_graph(4, states=120, columns=12).fields())
    decoder = lattice_cpu.arcbeam.CtcDecoder(graph, device="cpu")
    batch = [random_log_probs(seed, 10, 12) for seed in range(3)]
    found = {name: decoder.decode(batch, **options) for name, options in lattice_cpu.ASKED.items()}
    lattice_cpu.check(found)
    with pytest.raises(AssertionError, match="best path depends on what is asked for"):
        lattice_cpu.check(found | {"lattice": decoder.decode(batch[::-1], lattice=True)})
    other = lattice_cpu.arcbeam.CtcDecoder(graph, device="cpu", posterior_scale=0.5)
    with pytest.raises(AssertionError, match="answers depend on what else is asked for"):
        lattice_cpu.check(found | {"all": other.decode(batch, **lattice_cpu.ASKED["all"])})
    with pytest.raises(AssertionError, match="words of minimum Bayes risk are not those of the lattice"):
        lattice_cpu.check(found | {lattice_cpu.MBR: other.decode(batch, mbr=True)})


def test_oracle_errors_by_hand():
    references = [["a", "b"], ["c"]]
    answers = [["a x", "a b"], []]
    assert oracle.oracle(references, answers, 1) == pytest.approx(200 / 3)
    assert oracle.oracle(references, answers, 2) == pytest.approx(100 / 3)
    assert distinct(["a", "b", "a"]) == ["a", "b"]


def test_rows_of_lists_and_lattices(tiny, monkeypatch, tmp_path):
    ours = [setting for setting in nbest_peers.SETTINGS if setting.is_ours][:2]
    gone = nbest_peers.Setting("gone", "no_such_adapter", ours[0].options)
    monkeypatch.setattr(nbest_peers, "SETTINGS", (*ours, gone))
    rows = list(nbest_peers.run(Context(repeats=2)))
    assert rows[2]["status"].startswith("missing: ")
    for row in rows[:2]:
        assert row["oracle_1"] > row["oracle_10"] >= row["oracle_100"] and len(row["curve"]) == len(oracle.CURVE)
    for at in range(3, 3 + len(nbest_peers.LATTICE_BEAMS)):
        assert at == 3 or rows[at]["oracle_lattice"] <= rows[at - 1]["oracle_lattice"]
    assert len(rows) == 3 + 2 * len(nbest_peers.LATTICE_BEAMS)
    pytest.importorskip("matplotlib", reason="plots need .[bench]")
    nbest_peers.draw(rows, tmp_path / "plot.png")
    assert min(struct.unpack(">II", (tmp_path / "plot.png").read_bytes()[16:24])) > 300
    series = {"n": {"one": [(1, 2.0), (10, 1.0)]}, "beam": {"one": [(1, 2.0)], "two": [(2, 1.0)]}}
    made = [plots.line_plots(tmp_path / f"{i}.png", series, "WER", logarithmic=["n"]).read_bytes() for i in range(2)]
    assert made[0] == made[1]
