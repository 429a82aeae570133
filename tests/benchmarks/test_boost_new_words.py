"""The experiment on words given back as new words, on speech that spells its words letter by letter."""

import numpy as np
import pytest

import arcbeam
from benchmarks.data import datasets, graphs
from benchmarks.experiments import boost_new_words
from benchmarks.harness.registry import Context
from benchmarks.tasks import boosting
from tests.benchmarks.tiny import dataset_of, give

TOKENS = ["<space>", *"abcdefg", "<blank>"]
FREQUENT, RARE = ["bad", "cab", "dad"], ["gaga", "cafe", "bead", "fade", "edge", "babe"]
SAID = ["bad gaga dad", "cab cafe", "bead bad cab", "dad"]


def spoken(text):
    """float32[frames, columns]: a frame for each letter and a blank after it, with some doubt."""
    columns = [TOKENS.index("<space>" if letter == " " else letter) for letter in text]
    frames = np.full((2 * len(columns), len(TOKENS)), -9.0, np.float32)
    frames[1::2, -1] = frames[np.arange(0, len(frames), 2), columns] = -0.01
    return frames


@pytest.fixture
def speech(monkeypatch, tmp_path):
    (tmp_path / "tokens.txt").write_text("\n".join(TOKENS) + "\n")
    words = FREQUENT + RARE
    lines = [f"-1.0\t{word}" for word in ["</s>", "<unk>", *words]]
    lm = tmp_path / "words.arpa"
    lm.write_text(f"\\data\\\nngram 1={len(words) + 3}\n\n\\1-grams:\n-99\t<s>\n" + "\n".join(lines) + "\n\n\\end\\\n")
    files = graphs.GraphFiles("letters", tmp_path / "letters.arcbeam", tmp_path / "letters.fst", lm)
    monkeypatch.setattr(graphs, "files", lambda name: files)
    monkeypatch.setattr(datasets, "data_folder", lambda: tmp_path)
    boost_new_words.without([]).save(files.arcbeam)
    batch = [spoken(text) for text in SAID]

    give(monkeypatch, files, lambda name, utterances=None: dataset_of(name, batch, SAID, tokens=TOKENS))
    monkeypatch.setattr(boosting, "frequent_words", lambda: frozenset(FREQUENT))


def test_words_that_were_taken_out_are_found_again(speech):
    rows = list(boost_new_words.run(Context()))
    assert {row["listed"] for row in rows} == {3}  # gaga, cafe, bead
    slots = {round(row["slot"], 1) for row in rows if row["why"] == "tuning"}
    assert slots == {-10.0, -8.0, -6.0, -4.0, -2.3}  # the last is the score of <unk>
    for beam in boost_new_words.BEAMS:
        tested = [row for row in rows if row["beam"] == beam and row["why"] != "tuning"]
        whole, default, without = tested[:3]
        assert (whole["wer"], whole["recall"]) == (default["wer"], default["recall"]) == (0.0, 100.0)
        assert whole["vocabulary"] == boost_new_words.WHOLE
        assert without["recall"] == 0.0 and without["wer"] > 30.0
        assert [row["others"] for row in tested[3:]] == [*boost_new_words.OTHERS] * 2 + [boost_new_words.TUNED_WITH]
        assert all(row["recall"] == 100.0 and row["wer"] == row["false"] == 0.0 for row in tested[3:])


def test_a_graph_that_still_writes_a_word_is_refused(speech, monkeypatch):
    whole = boost_new_words.without([])
    monkeypatch.setattr(boost_new_words, "without", lambda words: whole)
    with pytest.raises(AssertionError, match=r"the smaller graph still writes \['bead', 'cafe', 'gaga'\]"):
        list(boost_new_words.run(Context()))


def test_lists_have_own_words_and_others(speech):
    rare = boosting.RareWords(RARE + FREQUENT)
    own, none = boost_new_words.lists_of(rare, ["bead", "cafe", "gaga"], ["bad gaga dad", "dad"], 1)
    assert own[0] == "gaga" and len(own) == 2 and own[1] in {"bead", "cafe"}
    assert len(none) == 1 and arcbeam.Boost(none)
