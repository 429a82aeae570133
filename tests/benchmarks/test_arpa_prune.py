"""Pruning a 3-gram: probabilities still sum to one, what stays keeps its probability, contexts stay."""

import itertools

import numpy as np
import pytest

from data import arpa_prune
from data.arpa_prune import Model, Ngrams, prune

WORDS = ["<unk>", "<s>", "</s>", "a", "b", "c", "d"]
SIZE, START = len(WORDS), 1


def normalised(rng):
    """A random 3-gram whose probabilities sum to one; <s> is never predicted."""
    said = [w for w in range(SIZE) if w != START]
    p1 = np.zeros(SIZE)
    p1[said] = rng.dirichlet(np.ones(len(said)))
    unigrams = Ngrams(np.arange(SIZE)[:, None], np.log10(np.where(p1 > 0, p1, 1.0)), np.zeros(SIZE))
    orders = [unigrams]
    for order in (2, 3):
        model = Model(orders)
        rows, logp = [], []
        contexts = [(w,) for w in range(SIZE)] if order == 2 else list(map(tuple, orders[1].words.tolist()))
        for at, context in enumerate(contexts):
            if context[-1] == 2:  # nothing follows </s>
                continue
            chosen = sorted(rng.choice(said, size=3, replace=False).tolist())
            mass = rng.dirichlet(np.ones(4))  # of the three, and of the rest
            backed = 10.0 ** model.logp(np.array([(*context[1:], w) for w in chosen]))
            orders[-1].backoff[at] = np.log10(mass[3] / (1 - backed.sum()))
            rows += [(*context, w) for w in chosen]
            logp += np.log10(mass[:3]).tolist()
        orders.append(Ngrams(np.array(rows), np.array(logp), np.zeros(len(rows))))
    return orders


def total(model, context):
    said = [w for w in range(SIZE) if w != START]
    return (10.0 ** model.logp(np.array([(*context, w) for w in said]))).sum()


@pytest.mark.parametrize("threshold", [0.0, 1e-4, 1e-3, 1e-2, 1.0])
def test_probabilities_sum_to_one(threshold):
    orders = normalised(np.random.default_rng(1))
    model = Model(prune(orders, threshold))
    contexts = [c for c in itertools.product(range(SIZE), repeat=2) if 2 not in c]
    assert [total(model, c) for c in contexts] == pytest.approx([1.0] * len(contexts), abs=1e-9)


def test_what_stays_keeps_its_probability_and_its_context():
    orders = normalised(np.random.default_rng(2))
    kept = prune(orders, 3e-3)
    assert len(kept[0].words) == SIZE
    assert 0 < len(kept[1].words) < len(orders[1].words)
    assert 0 < len(kept[2].words) < len(orders[2].words)
    for before, after in zip(orders, kept, strict=True):
        old = {tuple(w): p for w, p in zip(before.words.tolist(), before.logp.tolist(), strict=True)}
        assert all(old[tuple(w)] == p for w, p in zip(after.words.tolist(), after.logp.tolist(), strict=True))
    bigrams = set(map(tuple, kept[1].words.tolist()))
    assert all((a, b) in bigrams for a, b, _ in kept[2].words.tolist())


def test_without_a_threshold_nothing_changes():
    orders = normalised(np.random.default_rng(3))
    for order in orders[:2]:
        order.logp, order.backoff = order.logp.copy(), order.backoff.copy()
    orders = prune(orders, -np.inf)
    again = prune(orders, -np.inf)
    for before, after in zip(orders, again, strict=True):
        assert before.words.tolist() == after.words.tolist()
        assert np.allclose(before.backoff, after.backoff)


def test_a_file_comes_back(tmp_path):
    orders = normalised(np.random.default_rng(4))
    (tmp_path / "full.arpa").write_text("".join(arpa_prune.lines(WORDS, orders)))
    names, read = arpa_prune.read(tmp_path / "full.arpa")
    assert names == WORDS
    for before, after in zip(orders, read, strict=True):
        assert before.words.tolist() == after.words.tolist()
        assert np.allclose(before.logp, after.logp, atol=1e-6)
        assert np.allclose(before.backoff, after.backoff, atol=1e-6)
    counts = arpa_prune.prune_file(tmp_path / "full.arpa", tmp_path / "pruned.arpa", 3e-3)
    text = (tmp_path / "pruned.arpa").read_text()
    assert [f"ngram {i}={n}\n" in text for i, n in enumerate(counts, 1)] == [True] * 3
    assert text.endswith("\\end\\\n")
