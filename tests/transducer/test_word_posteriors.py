"""How probable words of a beam search are, by the hypotheses that it ended with."""

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import TransducerDecoder
from arcbeam.transducer.beam.word_posteriors import kept_words, word_posteriors
from tests.transducer.networks import random_arrays, random_frames

WORDS = st.lists(st.sampled_from("abc"), max_size=6)
PIECES = ["\u2581a", "\u2581b", "a", "b", "\u2581", "ab"]


def most_kept(words, other):
    """The fewest errors of any alignment, and the most words that one of these keeps: all are tried."""
    found = set()
    for size in range(min(len(words), len(other)) + 1):
        for mine in itertools.combinations(range(len(words)), size):
            for theirs in itertools.combinations(range(len(other)), size):
                changed = sum(words[i] != other[j] for i, j in zip(mine, theirs, strict=True))
                found.add((changed + len(words) - size + len(other) - size, changed - size))
    errors, kept = min(found)
    return errors, -kept


@given(WORDS, WORDS)
def test_words_that_are_kept(words, other):
    kept = kept_words(words, other)
    assert len(kept) == len(words)
    errors, most = most_kept(words, other)
    assert sum(kept) <= most
    # What is kept comes in this order in the other sequence.
    left = iter(other)
    assert all(any(word == one for one in left) for word, keeps in zip(words, kept, strict=True) if keeps)
    # An alignment with the fewest errors keeps so many words at least.
    assert sum(kept) >= max(len(words), len(other)) - errors
    assert kept_words(words, words) == [True] * len(words)


def test_sums_of_posteriors():
    others = [(["a", "b", "c"], 0.5), (["a", "c"], 0.25), (["a", "d", "c"], 0.125), (["b"], 0.125)]
    assert word_posteriors(["a", "b", "c"], others) == [0.875, 0.625, 0.875]
    assert word_posteriors([], others) == []


def test_words_of_a_hypothesis():
    arrays = random_arrays(5, tokens=7, size=12, units=16, joint=13, features=8, blank=6, blank_bias=1.0)
    options = {"beam": 6.0, "tokenizer": PIECES, "device": "cpu"}
    decoder = TransducerDecoder.from_arrays(arrays, 6, **options)
    frames = [random_frames(seed, 25, 8) for seed in range(4)]
    listed = decoder.decode(frames, nbest=8)
    found = decoder.decode(frames, confidence=True)
    assert any(0 < word.confidence < 0.999 for one in found for word in one.words)
    for one, entries in zip(found, listed, strict=True):
        assert one.nbest is None and [word[:5] for word in one.words] == [word[:5] for word in entries.words]
        assert all(word.confidence is None for word in entries.words)
        texts = [([word.word for word in entry.words], entry.posterior) for entry in entries.nbest]
        assert [word.confidence for word in one.words] == word_posteriors(texts[0][0], texts)
        assert pickle.loads(pickle.dumps(one)).words == one.words
        assert one.to_dict()["words"][0]["confidence"] == one.words[0].confidence
    sure = TransducerDecoder.from_arrays(arrays, 6, confidence="entropy", **options)
    assert [one.words for one in sure.decode(frames, confidence=True)] == [one.words for one in found]
    assert sure.decode(frames)[0].words[0].confidence != found[0].words[0].confidence
    [bad] = decoder.decode([frames[0] * float("nan")], confidence=True, errors="return")
    assert bad.words == []


def test_what_is_refused():
    arrays = random_arrays(5, tokens=7, size=12, units=16, joint=13, features=8, blank=6)
    frames = random_frames(0, 5, 8)
    with pytest.raises(ValueError, match=r"confidence: expected a decoder with a beam, got a greedy one"):
        TransducerDecoder.from_arrays(arrays, 6, device="cpu").decode(frames, confidence=True)
    with pytest.raises(TypeError, match=r"confidence: expected .*bool.* got str"):
        TransducerDecoder.from_arrays(arrays, 6, beam=4, device="cpu").decode(frames, confidence="entropy")
