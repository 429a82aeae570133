"""The experiments with large language models, small: on an emulated GPU and on the CPU."""

import dataclasses

import numpy as np
import pytest

from arcbeam import LanguageModel
from arcbeam.core.errors import CapacityError, UnsupportedError
from arcbeam.ctc.decoder import DecodeStats
from benchmarks.data import graphs
from benchmarks.data.datasets import DataMissing
from benchmarks.engine import placements, rescoring_models
from benchmarks.harness import registry
from benchmarks.harness.registry import Context
from benchmarks.tasks import lm_task
from data import arpa_orders
from tests.benchmarks.on_emulated_gpu import has_matplotlib
from tests.benchmarks.tiny import WORDS, give, graph_of_words
from tests.decode.language_models import random_model
from tests.decode.random_graphs import random_log_probs


@pytest.fixture
def models(small, monkeypatch, tmp_path):
    """The tiny graph with words, its unigram, and a bigram that rescores."""
    rng = np.random.default_rng(0)
    large, language_model = (random_model(rng, WORDS, order, share=0.2) for order in (2, 1))
    give(monkeypatch, graph_of_words(tmp_path / "words.arcbeam", language_model=language_model))
    made = {"language_model": large, "graph_language_model": language_model}
    monkeypatch.setattr(rescoring_models, "load", lambda graph: made)

    def no_kenlm():
        raise DataMissing("books is not there")

    monkeypatch.setattr(rescoring_models, "kenlm", no_kenlm)
    return made


def test_placements_that_are_not_there():
    in_buckets = {"placement": "host-direct", "gpu_budget": 1, "arc_cache": 0}
    assert placements.options(placements.BUCKETED, 0) == in_buckets
    models = {"language_model": "ours", placements.KENLM: "theirs"}
    assert placements.models_of("host", models) == {"language_model": "ours"}
    assert placements.models_of("cpu", models) == {"language_model": "theirs"}

    def failing(error):
        def make():
            raise error

        return make

    assert placements.seat(lambda: "decoder") == ("decoder", "")
    assert placements.seat(failing(UnsupportedError("not yet\nso"))) == (None, "missing: not yet")
    assert placements.seat(failing(CapacityError("no room"))) == (None, "cannot: no room")
    with pytest.raises(ZeroDivisionError):
        placements.seat(lambda: 1 / 0)


def test_the_work_of_several_batches():
    work = DecodeStats(1, 2, None, 3, None, None, 4, lookups=5, lookup_misses=2)
    both = placements.total([work, work])
    assert (both.frames, both.expanded_tokens, both.lookups, both.lookup_rounds) == (2, None, 10, None)
    assert placements.looked_up(both) == {
        "lookups": 5.0,
        "distinct": 5.0,
        "hits": 60.0,
        "bytes": None,
        "rounds": None,
        "copies": None,
        "waits": None,
    }
    asked_again = dataclasses.replace(work, distinct_lookups=1, lookup_rounds=3, lookup_waiting=0.25)
    longer = dataclasses.replace(asked_again, frames=3, lookup_waiting=0.5)
    assert placements.total([asked_again, longer]).lookup_waiting == 0.4375
    assert placements.looked_up(asked_again)["hits"] == 0.0 and placements.looked_up(asked_again)["rounds"] == 3.0


# After F19 and KL14


@pytest.fixture
def task(models, monkeypatch):
    """The tiny graph and its models under both names; there is no KenLM model."""
    made = {"language_model": models["language_model"], placements.KENLM: None}
    small_model = models["graph_language_model"]
    graph = graphs.get("any").graph

    def load(context, names=("small",), kenlm=True):
        return lm_task.Task(made, dict.fromkeys(names, graph), dict.fromkeys(names, small_model))

    monkeypatch.setattr(lm_task, "load", load)
    monkeypatch.setattr(lm_task, "pieces", load)
    for name in ("f19_table1", "kl14_table2"):
        monkeypatch.setattr(registry.load(name), "SINGLE", 1)
    return made


def test_real_time_factors(task):
    rows = list(registry.load("f19_table1").run(Context(1, 2, {"beam": "5"}, gpu=True)))
    assert {row["set"] for row in rows} == {*lm_task.SETS, "throughput", lm_task.WORKLOAD}
    of_set = [row for row in rows if row["set"] == lm_task.SETS[0]]
    assert [row["contender"] for row in of_set if row["device"] == "cpu"] == [
        "CPU, one core", f"CPU, {lm_task.cores(Context())} cores", "CPU, one core, no rescoring",
        "CPU, one core, KenLM",
    ]  # fmt: skip
    on_gpu = {row["contender"]: row for row in of_set if row["device"] == "cuda"}
    assert len(on_gpu) == 10 and {row["mode"] for row in rows if row["set"] == "throughput"} == {"multi"}
    assert on_gpu["GPU, single, resident"]["utterances"] == 1 and on_gpu["GPU, multi, resident"]["utterances"] == 2
    for row in rows:
        if row["placement"] == "cpu":
            assert row["status"] == "missing: there is no KenLM file of this model"
        elif row["placement"] != "host" or "status" not in row:
            assert row["rtf"] * row["rtfx"] == pytest.approx(1.0) and row["ratio"] > 0
            assert (row["taken"] == row["cpu"]) == (row["device"] == "cpu" and row["threads"] == 1)
            assert ("lookups" in row) == (row["ngrams"] is not None)
    assert of_set[0]["ratio"] == 1.0


def test_on_the_cpu_alone(task, monkeypatch, tmp_path):
    monkeypatch.setattr(registry.load("f19_figures"), "BEAMS", (3.0, 5.0))
    monkeypatch.setattr(registry.load("kl14_figure2"), "BEAMS", (3.0,))
    for name, decoders in (("f19_figures", 3), ("kl14_figure2", 3)):
        experiment = registry.load(name)
        rows = list(experiment.run(Context(1, 2)))
        assert len(rows) == decoders * 2 * len(experiment.BEAMS) and all("wer" in row for row in rows)
        if has_matplotlib():
            experiment.draw([*rows, {"status": "failed"}], tmp_path / f"{name}.png")
            assert (tmp_path / f"{name}.png").stat().st_size > 1000
    alone = list(registry.load("kl14_table2").run(Context(1, 2, {"beam": "3", "cores": "1"})))
    assert {row["threads"] for row in alone} == {1} and len(alone) == 3
    assert {(row["graph"], row["hypotheses"]) for row in rows} == {("small", None), ("bigram", 5), ("small", 3)}


def test_lattices_are_rescored(task, monkeypatch):
    experiment = registry.load("kl14_lattice_rescoring")
    monkeypatch.setattr(experiment, "LATTICE_BEAMS", (0.0, 20.0))
    rows = list(experiment.run(Context(2, 2, {"beam": "12"})))
    assert [row["set"] for row in rows] == [name for name in lm_task.SETS for _ in range(6)]
    alone, own_scale, on_the_fly, limited, narrow, wide = rows[:6]
    assert alone["ratio"] == alone["search"] == 1.0 and alone["spread"] == [1.0, 1.0]
    assert alone["ngrams"] is own_scale["unlike"] is None and limited["contender"] == "on the fly, n = 3"
    assert on_the_fly["unlike"] == 0 == wide["unlike"] and on_the_fly["errors"] == wide["errors"]
    assert narrow["errors"] == alone["errors"] and narrow["oracle"] >= wide["oracle"]
    assert 1.0 <= narrow["links"] < wide["links"] < wide["rescored"]
    for row in (narrow, wide):
        assert row["rescoring"] > 0 and row["spread"][0] <= row["ratio"] <= row["spread"][1] and row["truncated"] == 0
        assert all(column.text(row) != "" for column in experiment.COLUMNS)
    task_ = lm_task.load(Context())
    [found] = experiment.search(task_, 12.0, lattice_beam=4.0).decode([random_log_probs(0, 5, 12)], lattice=True)
    [lattice] = experiment.rescored(task_, [found])
    experiment.check([found], [lattice], [found])
    lattice.__dict__["_arrays"] = lattice._arrays | {"total_cost": lattice.total_cost + 100.0}
    with pytest.raises(lm_task.gpu.Wrong, match=r"a rescored lattice costs .*, more than one of its paths"):
        experiment.check([found], [lattice], [found])


def test_phases(task):
    rows = list(registry.load("kl14_table2").run(Context(2, 2, {"beam": "5"}, gpu=True)))
    timed = {row["contender"]: row for row in rows if "microseconds" in row}
    assert {row["placement"] for row in rows if "microseconds" not in row} <= {"cpu", "host"}
    plain, ours = timed["GPU, a batch: not at all"], timed["GPU, a batch: on the GPU"]
    assert plain["search"] == plain["microseconds"] == ours["search"] and "rescoring" not in plain
    experiment = registry.load("kl14_table2")
    row = {"seconds": 2.0, "shift": 0.5, "device": "cuda", "threads": 1, "mode": "multi", "placement": "cpu"}
    row |= {"taken": [8e-6, 12e-6], "distinct": 4.0, "hits": 75.0}
    others = {
        ("cuda", 1, "multi", "none"): {"taken": [2e-6, 2e-6]},
        ("cuda", 1, "multi", "resident"): {"taken": [4e-6, 4e-6]},
    }
    assert experiment.phases(row, others) == {
        "microseconds": 2.5, "spread": [2.0, 3.0], "search": 0.5, "rescoring": 0.5, "waiting": 1.5, "asked": 1.0,
    }  # fmt: skip


def test_a_contender_that_is_wrong_leaves_the_others(task, monkeypatch):
    compare, calls = lm_task.gpu.compare, []

    def wrong_once(found, wanted):
        calls.append(1)
        if len(calls) == 2:
            raise lm_task.gpu.Wrong("utterance 0: the path differs")
        compare(found, wanted)

    monkeypatch.setattr(lm_task.gpu, "compare", wrong_once)
    rows = list(registry.load("f19_table1").run(Context(1, 1, {"beam": "5"})))[:4]
    assert rows[1]["status"] == "failed: Wrong: utterance 0: the path differs" and "rtf" in rows[2]


ARPA = """\\data\\
ngram 1=4
ngram 2=3
ngram 3=1

\\1-grams:
-0.6\t<s>\t-0.3
-0.6\t</s>
-0.6\ta\t-0.2
-0.6\t<unk>

\\2-grams:
-0.3\t<s> a\t-0.1
-0.4\ta a
-0.4\ta </s>

\\3-grams:
-0.2\t<s> a a

\\end\\
"""


@pytest.mark.filterwarnings("ignore:.*do not sum to 1")
def test_lower_orders(tmp_path):
    (tmp_path / "3.arpa").write_text(ARPA)
    arpa_orders.main([str(tmp_path / "3.arpa"), str(tmp_path / "2.arpa"), "--order", "2"])
    text = (tmp_path / "2.arpa").read_text()
    assert "ngram 3" not in text and "3-grams" not in text and "-0.3\t<s> a\n" in text and text.endswith("\\end\\\n")
    model = LanguageModel.build(tmp_path / "2.arpa")
    assert model.about["ngrams"] == [4, 3]
    with pytest.raises(ValueError, match=r"3\.arpa has 3 orders: expected one of 1 to 2, got 3"):
        arpa_orders.cut_file(tmp_path / "3.arpa", tmp_path / "x", 3)


@pytest.mark.filterwarnings("ignore:.*do not sum to 1")
def test_sizes_and_files(demo_data, monkeypatch, tmp_path):
    pytest.importorskip("kaldifst", reason="kaldifst builds graphs: pip install '.[build]'")
    folder = tmp_path / "cache" / "lms"
    folder.mkdir(parents=True)
    for name in ("large", "small"):
        (folder / f"{name}.arpa").write_text(ARPA)
    (folder / "large.trie").write_bytes(b"0" * 1000)
    (tmp_path / "tokens.txt").write_text("<blk> 0\na 1\n")
    for module in (lm_task.datasets, graphs):
        monkeypatch.setattr(module, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(lm_task.datasets, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(graphs, "FOLDER", tmp_path / "cache" / "graphs")
    rows = list(registry.load("kl14_table1").run(Context(options={"folder": str(folder)})))
    assert [row["ngrams"] for row in rows if "ngrams" in row] == ["4 / 3", "4 / 3 / 1", "4 / 3 / 1"]
    assert rows[0]["states"] > 0 and rows[-1]["trie_mb"] == 0.001 and rows[-1].get("probing_mb") is None
    assert rows[2]["status"].startswith("missing: python -m benchmarks.build_graphs")
    assert lm_task.folder_of(Context()) == tmp_path / "cache" / "books-lm"
    (folder / "small.arpa").unlink()
    (folder / "bigram.arpa").unlink()
    with pytest.raises(DataMissing, match=r"small\.arpa is not there; python -m data.make_large_lm makes it"):
        lm_task.small_arpa(folder, "bigram", print)
