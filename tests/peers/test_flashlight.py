"""flashlight-text gives the baseline's words and scores, or the difference is shown to be a tie."""

from dataclasses import replace
from itertools import groupby

import pytest

pytest.importorskip("flashlight.lib.text.decoder", reason="the peer is missing: pip install '.[peers]'")
pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[peers]'")

from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.word_lists import words_of_arpa
from benchmarks.adapters.baseline import Baseline, Task
from benchmarks.adapters.flashlight_text import FlashlightText
from benchmarks.data import datasets, graphs
from benchmarks.experiments import baseline_equal
from benchmarks.experiments.baseline_equal import KINDS, OPTIONS, SETS

WORD_OPTIONS = ("word_score", "unk_score", "smearing")


def check(found):
    assert not found.unexplained


@pytest.fixture(scope="module")
def demo(demo_data, tmp_path_factory):
    """Some of the demo's utterances; the folder of its tokens' and language model."""
    return datasets.read(demo_data, "demo", 0.02, demo_data / "tokens.txt").first(5), demo_data


def task_of(folder, options, with_lexicon):
    lm, search = folder / "novels.3gram.arpa.xz", OPTIONS[options]
    if with_lexicon:
        tokens, lexicon = baseline_equal.letters(folder / "tokens.txt", words_of_arpa(lm))
        return Task(tokens, lexicon, graphs.plain_arpa(lm), lexicon.separator_column, dict(search))
    search = {name: value for name, value in search.items() if name not in WORD_OPTIONS}
    return Task(TokenTable.read(folder / "tokens.txt"), None, None, 0, search)


@pytest.mark.parametrize("with_lexicon", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
def test_demo(demo, options, with_lexicon):
    dataset, folder = demo
    check(baseline_equal.compare_on(task_of(folder, options, with_lexicon), dataset.utterances))


def by_torchaudio(path, blank):
    """Tokens and timesteps as torchaudio's ctc_decoder makes them of flashlight-text's path, sentence ends included."""
    tokens = [column for column, _ in groupby(path) if column != blank]
    timesteps = [i for i, c in enumerate(path) if c != blank and (i == 0 or c != path[i - 1])]
    return tokens, timesteps


@pytest.mark.parametrize("with_lexicon", [True, False])
def test_timesteps(demo, with_lexicon):
    dataset, folder = demo
    task = task_of(folder, "best path", with_lexicon)
    ours, theirs = Baseline(task), FlashlightText(task)
    compared = 0
    for utterance in dataset.utterances:
        (found,) = ours.decode(ours.prepare([utterance]))
        ((path, *_),) = theirs.decode(theirs.prepare([utterance]))
        if found.best.tokens.tolist() == path.tokens[1:-1]:  # else the paths tie: see the other tests
            compared += 1
            tokens, timesteps = by_torchaudio(path.tokens, task.tokens.blank)
            assert found.best.collapsed_tokens.tolist() == tokens
            assert found.best.timesteps.tolist() == timesteps
    assert compared >= 4


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
