"""Random language models for tests of rescoring: columns written by hand, so that weights are multiples of 1/64."""

import numpy as np
from arcbeam._language_model import ARC

from arcbeam import LanguageModel
from arcbeam.lm_file import check
from tests.language_model.index import index_columns


def language_model(words, histories, start=("<s>",)):
    """A model from {history: ({word: cost}, back-off cost)}; the empty history lists every word and ``</s>``.

    A history's suffixes and the history after every listed n-gram are found as the longest that is there.
    """
    assert histories[()][0].keys() == {*words, "</s>"}
    labels = {word: i for i, word in enumerate([*words, "</s>"], 1)}
    order = max(map(len, histories)) + 1
    number = {(): 0}
    lengths = [0, 1]

    def longest(history):
        while history not in number:
            history = history[1:]
        return history

    for length in range(1, order):
        of_length = [h for h in histories if len(h) == length]
        ids = {w: i for i, w in enumerate([*words, "<s>"])}
        for history in sorted(of_length, key=lambda h: (number[longest(h[1:])], [ids[w] for w in h])):
            number[history] = len(number)
        lengths.append(len(number))
    listed = list(number)
    first, low, arcs, backoffs, weights = [0], [], [], [], []
    for history in listed:
        costs, backoff = histories[history]
        for word in sorted(costs, key=labels.get):
            low.append(labels[word])
            arcs.append((0 if word == "</s>" else number[longest((*history, word))], costs[word]))
        first.append(len(arcs))
        backoffs.append(number[longest(history[1:])] if history else 0)
        weights.append(backoff if history else 0.0)
    text = "".join(words).encode()
    columns = {
        "labels.low": np.array(low, "<u2"),
        "labels.high": np.zeros(0, "<u4"),
        **index_columns(first, backoffs),
        "arcs": np.array(arcs, ARC),
        "backoff.weights": np.array(weights, "<f4"),
        "lengths": np.array(lengths, "<u4"),
        "words.ends": np.cumsum([len(w.encode()) for w in words]).astype("<u8"),
        "words.text": np.frombuffer(text, np.uint8),
    }
    digest = f"{hash(tuple(sorted((h, tuple(sorted(c[0].items())), c[1]) for h, c in histories.items()))):x}"
    about = {
        "high_bits": 0, "start": number[longest(start)], "num_labels": len(words) + 1, "ngrams": [], "digest": digest,
        "notes": [],
    }  # fmt: skip
    check(columns, about)
    return LanguageModel(columns, about)


def random_model(rng, words, order, share=0.4, cost=lambda rng: int(rng.integers(0, 256)) / 64):
    """Histories of every length that a coin picks, suffixes or not; each lists some words."""
    vocabulary = [*words, "</s>"]
    histories = {(): ({w: cost(rng) for w in vocabulary}, 0.0)}
    level = [()]
    for _ in range(1, order):
        longer = [(w, *h) for h in level for w in [*words, "<s>"] if "<s>" not in h]
        level = [h for h in longer if rng.random() < share]
        for history in level:
            picked = [w for w in vocabulary if rng.random() < 0.5] or vocabulary[:1]
            histories[history] = ({w: cost(rng) for w in picked}, int(rng.integers(-64, 128)) / 64)
    return language_model(words, histories)
