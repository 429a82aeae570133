"""flashlight-text gives the baseline's words and scores, or the difference is shown to be a tie."""

from dataclasses import replace

import pytest

pytest.importorskip("flashlight.lib.text.decoder", reason="the peer is missing: pip install 'arcbeam[peers]'")
pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install 'arcbeam[peers]'")

from arcbeam.graph.symbols import TokenTable
from arcbeam.recipe.lexicon import words_of_arpa
from benchmarks.adapters.baseline import Baseline, Task
from benchmarks.adapters.flashlight_text import FlashlightText
from benchmarks.data import datasets
from benchmarks.experiments import baseline_equal
from benchmarks.experiments.baseline_equal import KINDS, OPTIONS, SETS

WORD_OPTIONS = ("word_score", "unk_score", "smearing")


def check(found):
    assert not found.unexplained


@pytest.fixture(scope="module")
def demo(demo_data, tmp_path_factory):
    """Some of the demo's utterances; the folder of its tokens' and language model."""
    return datasets.read(demo_data, "demo", 0.02, demo_data / "tokens.txt").first(5), demo_data


@pytest.mark.parametrize("options", OPTIONS)
def test_demo(demo, options):
    dataset, folder = demo
    lm = folder / "novels.3gram.arpa.xz"
    tokens, lexicon = baseline_equal.letters(folder / "tokens.txt", words_of_arpa(lm))
    task = Task(tokens, lexicon, baseline_equal.plain_arpa(lm), lexicon.separator_column, OPTIONS[options])
    check(baseline_equal.compare_on(task, dataset.utterances))


@pytest.mark.parametrize("options", OPTIONS)
def test_demo_without_a_lexicon(demo, options):
    dataset, folder = demo
    search = {name: value for name, value in OPTIONS[options].items() if name not in WORD_OPTIONS}
    task = Task(TokenTable.read(folder / "tokens.txt"), None, None, 0, search)
    check(baseline_equal.compare_on(task, dataset.utterances))


def test_a_difference_that_is_no_tie_stays_unexplained(demo, monkeypatch):
    dataset, folder = demo
    monkeypatch.setattr(baseline_equal, "NUMBERINGS", {"arcbeam baseline": 3, "flashlight-text": 1})
    words = ["and", "mister", "john", "had", "then"]
    task = Task(*baseline_equal.letters(folder / "tokens.txt", words), None, 0, OPTIONS["best path"])
    other = replace(task, options={**task.options, "word_score": -0.4})
    found = baseline_equal.compare(dataset.utterances[:1], Baseline(task), FlashlightText(other))
    assert [d.utterance for d in found.unexplained] == [0]
    assert found.unexplained[0].row(["one"])["shown by"] is None


@pytest.mark.long
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SETS)
def test_real_sets(arcbeam_data, name, kind, options):
    dataset = datasets.load(name).first(SETS[name])
    check(baseline_equal.compare_on(*baseline_equal.task_and_utterances(kind, dataset, OPTIONS[options]), threads=2))
