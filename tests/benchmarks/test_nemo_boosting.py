"""NeMo's boosting trees in the tables: each utterance of a batch has its own, and its letters are the columns."""

import lzma
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam.graph.token_table import TokenTable
from benchmarks.adapters import SearchOptions
from benchmarks.data import datasets, graphs, letters_lm
from tests.decode.random_graphs import random_log_probs

COLUMNS = ["<space>", "a", "b", "c", "d", "<blank>"]
BLANK = len(COLUMNS) - 1
LISTS = [["ab", "bad", "abba"], ["cab", "dd"], ["dada"], ["bcd", "cb", "b"], ["aab"]]
LENGTHS = (23, 9, 31, 14, 27)
ALPHA = 0.75


@pytest.fixture(scope="module")
def adapters():
    """The modules that need NeMo: (its CTC decoders with trees, its trees)."""
    for package in ("torch", "omegaconf"):
        pytest.importorskip(package, reason="NeMo needs it")
    try:
        from benchmarks.adapters import nemo_boosting, nemo_trees
    except ImportError as error:
        pytest.skip(str(error))
    return nemo_boosting, nemo_trees


@pytest.fixture(scope="module")
def make(adapters):
    """The adapter for log-probs of a few letters."""

    def made(beam_size=0, columns=COLUMNS, separator=0, **more):
        graph = SimpleNamespace(separator_column=separator)
        files = SimpleNamespace(name="letters", tokens=TokenTable.from_list(columns), graph=graph)
        return adapters[0].ADAPTER(files, SearchOptions(batch=2), beam_size, **more)

    return made


@pytest.fixture(scope="module")
def batch():
    return [random_log_probs(seed, n, len(COLUMNS), sharpness=1.5) for seed, n in enumerate(LENGTHS)]


def alone(adapters, log_probs, words, beam_size):
    """NeMo's own way with one tree, for one utterance."""
    import torch

    boosted, trees = adapters
    spelled = [["_abcd".index(letter) for letter in word] for word in words]
    models = {"fusion_models": [trees.tree(spelled, BLANK)], "fusion_models_alpha": [ALPHA]}
    frames, length = torch.from_numpy(np.array(log_probs, np.float32))[None], torch.tensor([len(log_probs)])
    with torch.inference_mode():
        if beam_size:
            (hyp,) = boosted.COMPUTER(BLANK, beam_size, **models)(frames, length).to_hyps_list(score_norm=False)
            return list(map(int, hyp.y_sequence))
        decoder = boosted.GREEDY(BLANK)
        vars(decoder).update(models)
        (hyp,) = decoder._greedy_decode_logprobs_batched(frames, length)
    found = [c for c, last in zip(hyp.y_sequence, [BLANK, *hyp.y_sequence[:-1]], strict=True) if c != last]
    return [column for column in found if column != BLANK]


@pytest.mark.parametrize("beam_size", [0, 4])
def test_each_utterance_has_its_own_tree(adapters, make, batch, beam_size):
    adapter = make(beam_size)
    prepared = adapter.prepare(batch)
    found = adapter.decode_with_hotwords(prepared, LISTS, ALPHA)
    expected = [alone(adapters, u, words, beam_size) for u, words in zip(batch, LISTS, strict=True)]
    assert [columns for columns, _ in found] == expected
    plain = [answer.text for answer in adapter.answers(adapter.decode(prepared))]
    boosted = [answer.text for answer in adapter.answers(found)]
    assert sum(one != other for one, other in zip(plain, boosted, strict=True)) >= 3
    swapped = adapter.decode_with_hotwords(prepared, LISTS[1:] + LISTS[:1], ALPHA)
    assert [columns for columns, _ in swapped] != expected


def test_letters_of_words(make):
    assert make().spelled(["ab", "d"]) == ((1, 2), (4,))
    assert make(separator_first=True).spelled(["ab"]) == ((0, 1, 2),)
    assert make().text([0, 1, 2, 0, 0, 4]) == "ab d"


def test_what_nemo_cannot_decode_is_named(make):
    with pytest.raises(ValueError, match="the blank last, got column 0"):
        make(columns=["<blank>", "<space>", "a"], separator=1)
    with pytest.raises(ValueError, match="with a separator between words"):
        make(separator=None)
    with pytest.raises(ValueError, match="lm_weight: expected beam_size, too"):
        make(lm_weight=0.5)


@pytest.fixture
def lm_cache(monkeypatch, tmp_path):
    """Lines of text, some of which the columns cannot write or a set of references has, too."""
    (tmp_path / "text").mkdir()
    with lzma.open(tmp_path / "text" / "books.txt.xz", "wt") as file:
        file.write("a b a b a\nabba  cab\nx-ray\nd a d a d\n" + "bad dad\ndada\n" * 30)
    monkeypatch.setattr(datasets, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(datasets, "CACHE", tmp_path)
    monkeypatch.setattr(graphs, "FOLDER", tmp_path)
    monkeypatch.setattr(datasets, "load", lambda name: SimpleNamespace(references=["c d a d a d"]))
    monkeypatch.setattr(letters_lm, "LINES", (0, 64))
    monkeypatch.setattr(letters_lm, "STEP", 1)
    return tmp_path


def test_lines_of_the_model_of_letters(lm_cache):
    found = ["".join(" abcd"[column] for column in text) for text in letters_lm.texts(list(" abcd"))]
    assert found == ["a b a b a", "abba cab"] + ["bad dad", "dada"] * 30
    path = letters_lm.get(list(" abcd"))
    said = path.read_text(encoding="utf-8")
    assert said.startswith("\\data\\\nngram 1=8\n") and f"\n\\{letters_lm.ORDER}-grams:\n" in said
    assert f"\t{chr(102)} {chr(101)} {chr(104)}\t" in said  # "bad"
    (lm_cache / "text" / "books.txt.xz").unlink()
    assert letters_lm.get(list(" abcd")) == path  # which is kept


def test_the_model_of_letters_is_used(make, batch, lm_cache):
    adapter, plain = make(4, lm_weight=2.0), make(4)
    prepared = adapter.prepare(batch)
    with_lm = [answer.text for answer in adapter.answers(adapter.decode(prepared))]
    assert with_lm != [answer.text for answer in plain.answers(plain.decode(prepared))]
    # In its text no word begins with c.
    assert not any(word.startswith("c") for text in with_lm for word in text.split())
    boosted = adapter.decode_with_hotwords(prepared, LISTS, ALPHA)
    assert [answer.text for answer in adapter.answers(boosted)] != with_lm
