"""Buckets of a language model: every arc is in one of the two where it is searched for, and look-ups say the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import CapacityError, LanguageModel
from arcbeam.lm._language_model import ARC, walk
from arcbeam.lm._lm_buckets import FULLNESS, Buckets
from tests.decode.language_models import random_model
from tests.hypothesis_examples import examples

WORDS = [f"w{i}" for i in range(1, 50)]


def check(model, buckets):
    """Each arc has one entry, and is found in its state at the first read."""
    entries = buckets.entries[buckets.entries["state"] != 0]
    assert len(entries) == model.num_arcs - model.end_label
    found = buckets.steps(entries["state"].copy(), entries["label"].copy())
    assert (found[1] == entries["state"]).all(), "an entry that is not where it is searched for"
    assert found[2].tobytes() == entries["next_state"].tobytes()
    assert (found[0] == np.float32(0) + entries["weight"]).all()
    kept = np.empty(len(entries), ARC)
    kept["next_state"], kept["weight"] = entries["next_state"], entries["weight"]
    wanted = model.columns["arcs"][model.end_label :]
    assert np.sort(kept.view("<u8")).tobytes() == np.sort(wanted.view("<u8")).tobytes()
    assert buckets.words.tobytes() == model.columns["arcs"][: model.end_label].tobytes()


def check_walk(model, buckets, count, seed=0):
    """Running text of words of a Zipf distribution, unknown ones and ends of sentences among them."""
    labels = ((model.end_label + 1) ** np.random.default_rng(seed).random(count) - 1).astype(np.uint32)
    wanted = walk(model.columns, model.about, model.start, labels)
    states = np.concatenate([np.array([model.start], np.uint32), wanted[2][:-1]])
    for got, want in zip(buckets.steps(states, labels), wanted, strict=True):
        assert got.tobytes() == want.tobytes()


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 12), st.sampled_from([0.2, FULLNESS, 0.9]))
def test_random_models(seed, order, words, fullness):
    model = random_model(np.random.default_rng(seed), WORDS[: max(2, words // order)], order, share=0.6)
    buckets = Buckets(model.columns, model.about, fullness)
    check(model, buckets)
    check_walk(model, buckets, 300, seed)


@pytest.fixture(scope="module")
def model():
    return random_model(np.random.default_rng(2), [f"w{i}" for i in range(1, 120)], 3, share=0.5)


def test_several_parts(model):
    """More arcs than a part has room for; a bucket is a line of 64 bytes, a chain one within 128."""
    buckets = Buckets(model.columns, model.about)
    assert len(buckets.entries) > 3 and buckets.entries.shape[1:] == (buckets.entries.shape[1], 4)
    assert buckets.entries.ctypes.data % 128 == buckets.chains.ctypes.data % 128 == 0
    assert buckets.chains.shape == (model.num_states, 2) and buckets.chains.itemsize == 8
    check(model, buckets)
    check_walk(model, buckets, 20_000)


def test_the_bytes_do_not_depend_on_the_threads(model):
    one, three = (Buckets(model.columns, model.about, threads=threads) for threads in (1, 3))
    assert one.entries.tobytes() == three.entries.tobytes() and one.chains.tobytes() == three.chains.tobytes()


@pytest.mark.parametrize("fullness", [0.5, 0.94])
def test_fuller_and_emptier(model, fullness):
    buckets = Buckets(model.columns, model.about, fullness)
    assert (buckets.entries["state"] != 0).mean() == pytest.approx(fullness, rel=0.01)
    check(model, buckets)


def test_too_full(model):
    with pytest.raises(CapacityError, match=r"\d+ arcs do not fit in \d+ parts of \d+ buckets"):
        Buckets(model.columns, model.about, 1.01)


def test_a_table_that_is_full_to_the_last_entry():
    """Few arcs have places, with some seed or other."""
    model = random_model(np.random.default_rng(1), WORDS[:3], 2, share=1.0)
    buckets = Buckets(model.columns, model.about, 1.0)
    check(model, buckets)


def test_three_million_ngrams(arcbeam_data):
    model = LanguageModel.build(arcbeam_data / "lm" / "books.3gram.arpa.xz", progress=False)
    buckets = Buckets(model.columns, model.about)
    assert len(buckets.entries) > 100
    check(model, buckets)
    check_walk(model, buckets, 500_000)
