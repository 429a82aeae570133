"""The experiments after Galvez & Kaldewey 2023, small: everybody has a row, parts add up, the paper stands beside."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import adapters, papers
from benchmarks.adapters import Answer
from benchmarks.data import acoustic, corpus, datasets
from benchmarks.experiments import gk23_figure1, gk23_table1, gk23_table2, gk23_table3
from benchmarks.harness import plots, registry
from benchmarks.harness.registry import Context
from benchmarks.report import __main__ as report
from benchmarks.report import results
from benchmarks.tasks import end_to_end, gk23
from tests.benchmarks.test_contest import SAID, TEXTS, log_probs, small  # noqa: F401

TOKENS = ["<blank>", "a", "b", "c"]


@pytest.fixture
def workload(small, monkeypatch):  # noqa: F811
    """Three utterances, as any set; options that name the small graph."""

    def load(name):
        rows = [log_probs(c) for c in SAID]
        lengths = np.array([len(r) for r in rows])
        return datasets.Dataset(name, np.concatenate(rows), lengths, list("xyz"), TEXTS, 0.02, TOKENS)

    monkeypatch.setattr(datasets, "load", load)
    monkeypatch.setattr("benchmarks.data.graphs.FOLDER", small.arcbeam.parent / "cache")
    return {"graph": str(small.arcbeam)}


def test_table3_has_a_row_for_everybody(workload, monkeypatch):
    for name in ("flashlight_words", "kaldi_decoder", "pyctcdecode", "riva"):
        monkeypatch.setitem(sys.modules, f"benchmarks.adapters.{name}", None)
    chosen = "flashlight_words,arcbeam_cpu,kaldi_decoder,pyctcdecode,riva"
    rows = list(gk23_table3.run(Context(2, options=workload | {"contenders": chosen})))
    here = [row for row in rows if "rtfx" in row]
    assert {row["adapter"] for row in here} == {"arcbeam_cpu"} and len(here) == len(gk23.core_counts())
    assert {row["adapter"] for row in rows if str(row.get("status", "")).startswith("missing: ")} == {
        "flashlight_words", "kaldi_decoder", "pyctcdecode", "riva",
    }  # fmt: skip
    for row in here:
        assert (row["wer"], row["same"], row["device"]) == (0.0, "3 of 3", "cpu")
        assert row["rtfx_spread"][0] <= row["rtfx"] <= row["rtfx_spread"][1]
        assert "ratio" not in row, "there is nobody to compare with"


def test_table3_compares_with_the_reference(workload, monkeypatch):
    monkeypatch.setattr(gk23, "REFERENCE", "arcbeam_cpu")
    rows = list(gk23_table3.run(Context(2, options=workload | {"contenders": "arcbeam_cpu"})))
    assert rows[0]["ratio"] == rows[0]["cpu_ratio"] == 1.0 and rows[0]["ratio_spread"] == [1.0, 1.0]


def test_on_a_gpu_slow_decoders_get_the_first_minutes_alone(workload, monkeypatch):
    real = adapters.make
    monkeypatch.setattr(gk23, "REFERENCE", "arcbeam_cpu")
    monkeypatch.setattr(gk23, "core_counts", lambda: [1])
    monkeypatch.setattr(gk23_table3, "SLOW", ("arcbeam_cpu",))
    monkeypatch.setattr("benchmarks.adapters.make", lambda name: OnGpu if name == "riva" else real(name))
    options = workload | {"contenders": "arcbeam_cpu,riva", "slow_minutes": "0"}
    slow, _, fast = gk23_table3.run(Context(2, options=options, gpu=True))
    assert (slow["utterances"], fast["utterances"]) == (1, 3)
    assert fast["minutes"] == pytest.approx(slow["minutes"] * 15 / 6)
    assert (slow["same"], fast["same"]) == ("1 of 1", "1 of 1") and fast["wer"] == 0.0
    each = [15 / 6 * a / b for a, b in zip(slow["wall"], fast["wall"], strict=True)]
    assert fast["ratio_spread"] == pytest.approx([min(each), max(each)]) and slow["ratio"] == 1.0
    assert "cpu_ratio" not in fast


class OnGpu:
    """A decoder of a GPU, which says the same texts each time."""

    name, device, settings = "on a gpu", "cuda", ""

    def __init__(self, files, options):
        pass

    def prepare(self, utterances):
        return utterances

    def decode(self, prepared):
        return TEXTS[: len(prepared)]

    def answers(self, decoded):
        return [Answer(text, 0.0, True) for text in decoded]


def test_table3_refuses_engines_that_differ(workload, monkeypatch):
    class Liar(OnGpu):
        device = "cpu"

        def __init__(self, files, options, threads=1):
            self.threads = threads

        def answers(self, decoded):
            return [Answer(str(self.threads), 0.0, True) for _ in decoded]

    monkeypatch.setattr(gk23, "core_counts", lambda: [1, 2])
    monkeypatch.setattr("benchmarks.adapters.make", lambda name: Liar)
    with pytest.raises(AssertionError, match="give different words"):
        list(gk23_table3.run(Context(1, options=workload | {"contenders": "arcbeam_cpu"})))


def test_table3_keeps_the_rows_of_the_others(workload, monkeypatch):
    real = adapters.make
    monkeypatch.setattr("benchmarks.adapters.make", lambda name: Broken if name == "riva" else real(name))
    rows = list(gk23_table3.run(Context(1, options=workload | {"contenders": "arcbeam_cpu,riva"})))
    assert rows[-1]["status"] == "failed: RuntimeError: an illegal address" and "rtfx" not in rows[-1]
    assert all("rtfx" in row for row in rows[:-1])


def test_table1_tunes_on_one_set_alone(workload, monkeypatch):
    monkeypatch.setitem(sys.modules, "benchmarks.adapters.flashlight_words", None)
    options = workload | {"graph_normal": workload["graph"], "contenders": "flashlight_words,arcbeam_cpu"}
    rows = list(gk23_table1.run(Context(options=options)))
    assert [r["decoder"] for r in rows] == ["flashlight-text", *["arcbeam cpu"] * 4]
    assert rows[0]["status"].startswith("missing: ")
    assert [(r["graph"], r["set"]) for r in rows[1:]] == [
        (t, s) for t in ("compact", "normal") for s in (gk23_table1.TUNED_ON, gk23_table1.TESTED_ON)
    ]
    assert all((r["wer"], r["scale"], r["wer_2"]) == (0.0, 1.0, 0.0) for r in rows[1:])


class Model:
    """Says what the samples say: one column a sample."""

    name, device, settings, batch = "parrot", "cpu", "none", 2

    def load(self, waves):
        return waves

    def features(self, samples):
        return samples

    def log_probs(self, features):
        longest = max(map(len, features))
        rows = [log_probs([*f.astype(int), *[0] * (longest - len(f))]) for f in features]
        return np.array(rows), [len(f) for f in features]


@pytest.fixture
def spoken(workload, monkeypatch):
    """Recordings whose samples are columns, and the model that reads them."""
    recordings = [
        SimpleNamespace(id=i, seconds=len(c) / 50, text=t, samples=lambda c=c: np.array(c, np.float32))
        for i, c, t in zip("xyz", SAID, TEXTS, strict=True)
    ]
    monkeypatch.setattr(corpus, "load", lambda name: corpus.Corpus(name, recordings))
    monkeypatch.setattr(acoustic, "open_model", lambda *arguments: Model())
    return workload


def test_table2_and_figure1_add_up(spoken):
    options = spoken | {"contenders": "arcbeam_cpu,riva"}
    rows = list(gk23_table2.run(Context(3, options=options)))
    here = [r for r in rows if "rtfx" in r]
    assert [r["decoder"] for r in rows] == [r["decoder"] for r in here] + ["riva-asrlib-decoder"]
    for row in here:
        assert (row["wer"], row["model"], row["model_device"]) == (0.0, "parrot", "cpu")
        assert len(row["wall"]) == 3 and set(row["wall"][0]) == set(end_to_end.PARTS)
        totals = [row["seconds"] / sum(parts.values()) for parts in row["wall"]]
        assert row["rtfx_spread"] == [min(totals), max(totals)]
    for row in gk23_figure1.run(Context(3, options=options)):
        if "features_ms" in row:
            assert sum(row[f"{part}_share"] for part in end_to_end.PARTS) == pytest.approx(100)
        else:
            assert row["status"].startswith("missing: ")


class Broken(OnGpu):
    def decode(self, prepared):
        raise RuntimeError("an illegal address")


def test_a_decoder_that_breaks_leaves_the_others_their_rows(spoken, monkeypatch):
    made = {"riva": Broken, "arcbeam_cpu": adapters.make("arcbeam_cpu")}
    monkeypatch.setattr("benchmarks.adapters.make", made.__getitem__)
    context = Context(2, options=spoken | {"contenders": "arcbeam_cpu,riva"})
    for experiment, key in ((gk23_table2, "rtfx"), (gk23_figure1, "decoder_ms")):
        *others, last = experiment.run(context)
        assert last["status"] == "failed: RuntimeError: an illegal address" and key not in last
        assert others and all(key in row for row in others)
    context = Context(options=spoken | {"contenders": "arcbeam_cpu,riva"})
    *others, last = gk23_table1.run(context)
    assert last["status"] == "failed: RuntimeError: an illegal address" and "wer" not in last
    assert len(others) == 2 and all(row["wer"] == 0.0 for row in others)


def test_other_words_of_ours_are_not_timed(spoken, monkeypatch):
    """A turn in which one of our engines says something else ends the table and the figure."""

    class Other(OnGpu):
        def answers(self, decoded):
            return [Answer("something else", 0.0, True) for _ in decoded]

    made = {"arcbeam_cuda": Other, "arcbeam_cpu": adapters.make("arcbeam_cpu")}
    monkeypatch.setattr("benchmarks.adapters.make", made.__getitem__)
    for experiment in (gk23_table2, gk23_figure1):
        with pytest.raises(AssertionError, match="arcbeam cuda and arcbeam cpu, 1 core give different words"):
            list(experiment.run(Context(2, options=spoken | {"contenders": "arcbeam_cpu,arcbeam_cuda"})))


def test_a_corpus_of_your_own_becomes_log_probs(spoken, small):  # noqa: F811
    context = Context(options=spoken | {"corpus": "mine"})
    made = gk23.from_corpus(context, small, 2)
    assert (made.name, made.ids, made.references, made.lengths.tolist()) == ("mine", list("xyz"), TEXTS, [6, 6, 3])
    assert made.frame_shift == pytest.approx(0.02)
    assert [u.argmax(1).tolist() for u in made.utterances] == SAID
    rows = list(gk23_table3.run(Context(1, options=spoken | {"corpus": "mine", "contenders": "arcbeam_cpu"})))
    assert {(r["set"], r["wer"]) for r in rows} == {("mine", 0.0)}
    (one,) = gk23_table1.run(Context(options=spoken | {"corpus": "mine", "contenders": "arcbeam_cpu"}))
    assert (one["graph"], one["wer_1"]) == ("compact", 0.0) and "scale" not in one


def test_a_model_of_another_width_is_refused(spoken, small, monkeypatch):  # noqa: F811
    monkeypatch.setattr(Model, "log_probs", lambda self, f: (np.zeros((len(f), 9, 5)), [len(x) for x in f]))
    with pytest.raises(ValueError, match="small has 4 tokens, and parrot gives 5 columns"):
        gk23.from_corpus(Context(options=spoken | {"corpus": "mine"}), small, 2)


def test_minutes_of_a_set(workload):
    whole = datasets.load("any")
    assert len(gk23.first_minutes(whole, 12 * 0.02 / 60).ids) == 2
    assert len(gk23.first_minutes(whole, 0.0).ids) == 1
    assert gk23.first_minutes(whole, None) is whole


def test_the_paper_stands_beside_its_tables():
    for name in registry.names():
        key = getattr(registry.load(name), "PAPER", None)
        if key is not None:
            paper = papers.load(key)
            table = paper.tables[name]
            assert table["differences"]
            assert all(figure["seen"] in paper.sources and figure["value"] for figure in table["figures"])
    text = "\n".join(papers.load("GK23").beside("gk23_table2"))
    assert "| 2,261 / 2,205 | second hand" in text and "Differences in setting:" in text
    bare = papers.Paper("X", "t", "r", {}, {"x": {"figures": [], "differences": ["none"]}})
    assert papers.NONE in "\n".join(bare.beside("x"))
    with pytest.raises(KeyError, match=r"no paper 'ZZ99'; there are: .*GK23"):
        papers.load("ZZ99")


def test_without_matplotlib_plots_stay_as_they_are(tmp_path, monkeypatch, capsys):
    from benchmarks.harness import record

    head = {"record": "header", "experiment": "gk23_figure1"}
    record.write(tmp_path / "cpu" / "gk23_figure1.jsonl", head, [])
    (tmp_path / "plots").mkdir()
    old = tmp_path / "plots" / "cpu-gk23_figure1.png"
    old.write_bytes(b"as it was")

    def draw(*arguments, **more):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib.figure")

    monkeypatch.setattr(plots, "stacked_bars", draw)
    report.draw(list(results.found(tmp_path)), tmp_path)
    assert old.read_bytes() == b"as it was"
    assert "is left as it is: matplotlib is not installed" in capsys.readouterr().err


def test_options_are_checked_before_anything_runs(capsys):
    from benchmarks.__main__ import main

    assert main(["gk23_table3", "--set", "bean=17"]) == 2
    assert "gk23_table3 has no option 'bean'; it has: graph, graph_normal, lm" in capsys.readouterr().err
    assert main(["wer", "--set", "graph=char-3gram"]) == 2
    assert "wer has no option 'graph'; it has: none" in capsys.readouterr().err
    assert main(["gk23_table3", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "over one core of flashlight-text" in shown and "--set minutes=" in shown
    assert main(["no_such", "--list"]) == 2
