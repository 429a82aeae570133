"""The experiments of boosting: their lists and measures by hand, and their rows on tiny sets."""

import lzma
import struct
from types import SimpleNamespace

import pytest

from arcbeam import Boost
from arcbeam.ctc.options import DEFAULT_BOOST
from benchmarks.data import datasets, graphs
from benchmarks.experiments import boost_magnitude, boost_phrases, boost_rare_words, boost_score
from benchmarks.harness import record
from benchmarks.harness.registry import Context
from benchmarks.report.results import found
from benchmarks.tasks import boosting
from tests.benchmarks.on_emulated_gpu import missing
from tests.benchmarks.tiny import WORDS, dataset_of, give, graph_of_words
from tests.decode.random_graphs import random_log_probs

FREQUENT = frozenset(WORDS[:10])
UTTERANCES = 8


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The graph and every set are tiny ones; the references are what the search says, and a word more."""
    files = graph_of_words(tmp_path / "tiny.arcbeam")
    batch = [random_log_probs(seed, 10, 12) for seed in range(UTTERANCES)]
    texts = [h.text for h in boosting.decoder(files.graph, 17.0).decode(batch)]
    said = [f"{text} w{20 + i}" for i, text in enumerate(texts)]
    give(monkeypatch, files, lambda name, utterances=None: dataset_of(name, batch, said))
    monkeypatch.setattr(boosting, "frequent_words", lambda: FREQUENT)
    return files.graph


def test_frequent_words_are_counted_once(monkeypatch, tmp_path):
    (tmp_path / "text").mkdir()
    with lzma.open(tmp_path / "text" / "books.txt.xz", "wt") as file:
        file.write("b a c\na b\nb d a\n")
    monkeypatch.setattr(datasets, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(datasets, "CACHE", tmp_path)
    monkeypatch.setattr(graphs, "FOLDER", tmp_path)
    boosting.frequent_words.cache_clear()
    assert boosting.frequent_words(3) == {"a", "b", "c"}  # c before d, which is as frequent
    assert (tmp_path / "frequent-words-3.txt").read_text() == "a\nb\nc\n"
    boosting.frequent_words.cache_clear()
    (tmp_path / "text" / "books.txt.xz").unlink()
    assert boosting.frequent_words(3) == {"a", "b", "c"}
    boosting.frequent_words.cache_clear()


def test_lists_hold_what_was_said_and_others(tiny):
    rare = boosting.RareWords.of_graph(tiny)
    assert rare.words == sorted(rare.set) and not rare.set & FREQUENT
    assert rare.set <= set(WORDS)
    references = [f"w1 {rare.words[3]} {rare.words[0]} {rare.words[3]} unknown", "w2"]
    assert rare.said(references) == [rare.words[0], rare.words[3]]
    lists = rare.lists(references, 5)
    assert lists[0][:2] == [rare.words[0], rare.words[3]]
    assert [len(words) for words in lists] == [7, 5]
    for words in lists:
        assert len(set(words)) == len(words) and set(words) <= rare.set
    assert lists == rare.lists(references, 5) and lists[0][2:] != lists[1]
    assert set(rare.others(references, 10_000)) == rare.set - {rare.words[0], rare.words[3]}


def test_phrases_by_hand(monkeypatch):
    monkeypatch.setattr(boosting, "frequent_words", lambda: FREQUENT)
    rare = boosting.RareWords(WORDS)
    references = ["w1 w20 w2 x w30", "w3 w4"]
    assert rare.phrases(references, 1) == ["w20", "w30"]
    assert rare.phrases(references, 2) == ["w1 w20", "w20 w2"]  # x is unknown, and w3 w4 are frequent
    assert rare.phrases(references, 3) == ["w1 w20 w2"]
    assert boost_phrases.one_by_one(rare, ["w1 w20 w2", "w30 w20"]) == ["w20", "w30"]
    pool = ["w1 w20", *(f"w{i} w1" for i in range(11, 40))]
    lists = rare.phrase_lists(references, 2, pool, 5)
    assert lists[0][:2] == ["w1 w20", "w20 w2"]
    assert [len(phrases) for phrases in lists] == [7, 5]
    assert "w1 w20" not in lists[1] and set(lists[1]) <= set(pool)
    assert lists == rare.phrase_lists(references, 2, pool, 5)
    got = boosting.outcome(["a b a b", "c"], ["a b b a", "c a b"], [["a b", "b a", "c"], ["a b", "c"]])
    # Of "a b" twice, "b a" and "c", all but one "a b" are found; "a b" is false in the second text.
    assert (got.listed, got.right, got.false) == (4, 3, 1)


def test_rows_of_phrases(tiny, monkeypatch):
    monkeypatch.setattr(boost_phrases, "SETS", ("one",))
    monkeypatch.setattr(boost_phrases, "SCORES", (0.0, 15.0))
    monkeypatch.setattr(boost_phrases, "DISTRACTORS", (0, 3))
    rows = list(boost_phrases.run(Context()))
    assert len(rows) == 2 * 2 * (1 + 2 + 2)
    assert {row["how"] for row in rows if row["words"] == 1} == {boost_phrases.AS_PHRASES}
    for without, boosted in zip(rows[::2], rows[1::2], strict=True):
        assert without["listed"] == boosted["listed"] and without["score"] == 0
    # The references are what the search says, so that a boost does harm.
    assert any(boosted["wer"] > without["wer"] for without, boosted in zip(rows[::2], rows[1::2], strict=True))


def test_outcomes_by_hand():
    references, texts = ["a b a c", "d"], ["a a a x", "d b"]
    got = boosting.outcome(references, texts, [["a", "b"], ["b"]])
    # Of a, a, b two are found; a third a and b in the second utterance are false.
    assert (got.words, got.errors, got.listed, got.right, got.false, got.utterances) == (5, 3, 3, 2, 2, 2)
    assert (got.wer, got.false_alarms) == (60.0, 100.0)
    assert got.recall == pytest.approx(200 / 3)
    of_all = boosting.outcome(references, texts, frozenset("ad"))
    assert (of_all.listed, of_all.right, of_all.false) == (3, 3, 1)


def test_boosts_that_the_text_lacks_are_seen(tiny, monkeypatch):
    dataset, decoder = datasets.load("any").first(4), boosting.decoder(tiny, 8.0)
    words = sorted({word for found in decoder.decode(dataset.utterances) for word in found.text.split()})
    boost_magnitude.measure(decoder, dataset, words, 2.0)
    monkeypatch.setattr(Boost, "occurrences", lambda self, words: [])
    with pytest.raises(AssertionError, match="are not the listed words of"):
        boost_magnitude.measure(decoder, dataset, words, 2.0)


def test_rows_of_magnitudes(tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(boosting, "SETS", ("one",))
    rows = list(boost_magnitude.run(Context()))
    curves = [row for row in rows if "magnitude" in row]
    assert len(curves) == 3 * len(boost_magnitude.MAGNITUDES)
    best = [row for row in rows if "best" in row]
    assert len(best) == 3 * len(boost_magnitude.BEAMS)
    for row in best:
        assert row["wer_best"] <= min(row["wer_without"], row["wer_half"])
    pytest.importorskip("matplotlib", reason="plots need .[bench]")
    boost_magnitude.draw(rows, tmp_path / "plot.png")
    assert min(struct.unpack(">II", (tmp_path / "plot.png").read_bytes()[16:24])) > 300


def test_the_best_magnitude_is_the_smallest_of_equals():
    wers = {0.0: 9.0, 4.0: 7.0, 6.0: 7.0, 8.5: 8.0}
    rows = [{"magnitude": m, "wer_8": wer, "wer_12": wer, "wer_17": wer} for m, wer in wers.items()]
    first, _, last = boost_magnitude.compared("s", "l", rows)
    assert (first["wer_without"], first["wer_best"], first["best"], first["wer_half"]) == (9.0, 7.0, 4.0, 7.0)
    assert last["wer_half"] == 8.0


def scored(kind, score, recall, false):
    return {"list": kind, "score": score} | {
        f"{key}_{beam:g}": value for beam in boost_score.BEAMS for key, value in (("recall", recall), ("false", false))
    }


def test_the_default_score_by_hand():
    rows = [
        scored("a", 0.0, 80.0, 0.5), scored("a", 2.0, 90.0, 1.0), scored("a", 4.0, 90.0, 1.5),
        scored("a", 6.0, 99.0, 5.0), scored("b", 0.0, 80.0, 0.0), scored("b", 2.0, 90.0, 0.5),
        scored("b", 4.0, 90.0, 0.5), scored("b", 6.0, 99.0, 1.0),
    ]  # fmt: skip
    summed = boost_score.summed(rows)
    assert [(row["score"], row["recall"], row["added"]) for row in summed] == [
        (0.0, 80.0, 0.0), (2.0, 90.0, 0.5), (4.0, 90.0, 0.75), (6.0, 99.0, 2.75),
    ]  # fmt: skip
    assert boost_score.choice(summed) == 2.0


def test_rows_of_scores(tiny, monkeypatch):
    monkeypatch.setattr(boost_score, "DISTRACTORS", (5, 10))
    monkeypatch.setattr(boost_score, "MOST_ADDED", 1000.0)
    rows = list(boost_score.run(Context()))
    assert len(rows) == (2 + 1 + 1) * len(boost_score.SCORES)
    marks = [row for row in rows if row.get("mark")]
    assert {mark for row in marks for mark in row["mark"].split(", ")} == {"chosen", "the default"}


def test_the_default_score_is_the_chosen_one():
    rows = [result.rows for result in found(record.RESULTS) if result.name == "boost_score"]
    assert rows and all(boost_score.choice(each) == DEFAULT_BOOST for each in rows)


class Hotwords:
    """A peer whose hotwords are ours, with another beam, and wrong words with some settings."""

    device = "cpu"
    forgotten = 0

    def __init__(self, files, options, **more):
        self.settings = f"beam {options.beam:g}, weights {options.lm_weight:g} {options.word_score:g}, {more}"
        self.decoder = boosting.decoder(files.graph, 9.0)
        self.wrong = ["wrong"] * ((more.get("token_min_logp") == -5.0) + (options.lm_weight != 0.8))

    def prepare(self, utterances):
        return list(utterances)

    def decode(self, prepared):
        return self.decoder.decode(prepared)

    def decode_with_hotwords(self, prepared, lists, weight):
        return self.decoder.decode(prepared, boost=[Boost(words, weight) for words in lists])

    def forget_hotwords(self):
        Hotwords.forgotten += 1

    def answers(self, decoded):
        return [SimpleNamespace(text=" ".join([one.text, *self.wrong])) for one in decoded]


@pytest.fixture
def few(tiny, monkeypatch):
    monkeypatch.setattr(boost_rare_words, "DISTRACTORS", (5, 10))
    monkeypatch.setattr(boost_rare_words, "NEMO_OTHERS", (10,))
    monkeypatch.setattr(boost_rare_words, "PEER_OTHERS", (5, 10))
    monkeypatch.setattr(boost_rare_words, "TIMED", 10)
    monkeypatch.setattr(boost_rare_words, "TIMED_UTTERANCES", 3)


def test_rows_beside_peers(few, monkeypatch):
    monkeypatch.setattr(boost_rare_words.contest.adapters, "make", lambda name: Hotwords)
    monkeypatch.setattr(Hotwords, "forgotten", 0)
    rows = list(boost_rare_words.run(Context(repeats=2)))
    assert Hotwords.forgotten == 2 * (1 + 2)  # peers, the comparison and the repeats
    tried = {"arcbeam, beam 17": 1, "arcbeam, beam 12": 1, "pyctcdecode": 1, "pyctcdecode, tuned": 1}
    tried |= {label: len(settings) for label, settings in boost_rare_words.NEMO.items()}
    tuning = [row for row in rows if row.get("why") == "tuning"]
    tries = 1 + sum(map(len, boost_rare_words.PEER_TRIED.values()))
    in_turn, tuning = tuning[:tries], tuning[tries:]
    assert {(row["decoder"], row["score"]) for row in in_turn} == {("pyctcdecode, tuned", 10.0)}
    for decoder, settings in tried.items():
        own = [row for row in tuning if row["decoder"] == decoder]
        is_nemo = decoder in boost_rare_words.NEMO
        scores = boost_rare_words.NEMO_ALPHAS if is_nemo else boost_rare_words.SCORES
        assert len(own) == settings * len(scores) == len({(row["settings"], row["score"]) for row in own})
        best = min(own, key=lambda row: (row["wer"], -row["recall"]))
        used = [row for row in rows if row["decoder"] == decoder and str(row.get("why")).startswith("tuned")]
        assert [row["others"] for row in used] == ([10] if is_nemo else [5, 10])
        assert {(row["score"], row["settings"]) for row in used} == {(best["score"], best["settings"])}
    wer = {row["settings"]: row["wer"] for row in in_turn}
    first, *_, chosen = sorted(wer, key=wer.get, reverse=True)
    assert first == in_turn[0]["settings"] == "beam 10, weights 1 0, {'beam_width': 100, 'token_min_logp': -5.0}"
    best = "beam 10, weights 0.8 0, {'beam_width': 100, 'token_min_logp': -7.5}"  # each kept where it was better
    assert wer[best] == wer[chosen] < wer[first]
    assert {row["settings"] for row in tuning if row["decoder"] == "pyctcdecode, tuned"} == {best}
    assert sum(map(bool, (row.get("why") == "no boost" for row in rows))) == len(tried)
    timed = [row for row in rows if row.get("why") == "timed"]
    peers = ["pyctcdecode", "pyctcdecode, tuned"]
    assert [row["decoder"] for row in timed if "ratio" not in row] == [
        f"{p}{n}" for p in peers for n in ("", ", new lists")
    ]
    ours = [row for row in timed if "ratio" in row]
    assert len(ours) == 2 * 8 and sum("new lists" in row["decoder"] for row in ours) == 2 * 4  # tuned, and the default
    assert {row["compared"] for row in ours if "new lists" not in row["decoder"]} == set(peers)
    assert {row["compared"] for row in ours if "new lists" in row["decoder"]} == {
        f"{peer}, new lists" for peer in peers
    }
    assert {row["score"] for row in ours} >= {DEFAULT_BOOST}
    assert all(len(row["wall"]) == 2 for row in timed)


def test_without_the_peers_there_are_rows_that_say_so(few, monkeypatch):
    monkeypatch.setattr(boost_rare_words.contest.adapters, "make", missing)
    rows = list(boost_rare_words.run(Context(repeats=1)))
    peers = ["pyctcdecode", *boost_rare_words.NEMO]
    assert [row["decoder"] for row in rows if str(row.get("status")).startswith("missing: No module")] == peers
    assert not any("ratio" in row for row in rows)


def test_answers_that_differ_are_not_timed(few, monkeypatch):
    class Forgetful(Hotwords):
        calls = 0

        def decode_with_hotwords(self, prepared, lists, weight):
            self.calls += 1
            found = super().decode_with_hotwords(prepared, lists, weight)
            return found if len(found) == UTTERANCES else found[::-1]

    monkeypatch.setattr(boost_rare_words.contest.adapters, "make", lambda name: Forgetful)
    with pytest.raises(AssertionError, match="pyctcdecode, score 2: what is timed is not what was measured"):
        list(boost_rare_words.run(Context(repeats=1)))
