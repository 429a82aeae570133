"""Random language models for tests of rescoring: columns written by hand, so that weights are multiples of 1/64."""

import numpy as np

from arcbeam import Graph, LanguageModel, SymbolTable
from arcbeam.lm._language_model import ARC
from arcbeam.lm.lm_file import check
from tests.lm.index import index_columns

WORDS = [f"w{i}" for i in range(1, 50)]


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


def rough_models(seed):
    """A large 3-gram and a small bigram of WORDS, whose costs lie apart."""
    rng = np.random.default_rng(seed)
    cost = lambda r: float(r.gamma(4.0))  # noqa: E731
    return random_model(rng, WORDS, 3, share=0.2, cost=cost), random_model(rng, WORDS, 2, share=0.3, cost=cost)


def over(plain, small, words=WORDS):
    """The same graph with these words, said to be built with the small model."""
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *words]), "meta": {"lm_digest": small.digest}}
    return Graph(**plain.fields() | fields)


def all_costs_equal(seed, arcs, words=WORDS):
    """(graph, models): winners have equals that leave other histories, of which the smallest decides the path."""
    rng = np.random.default_rng(seed)
    same = lambda r: 0.5  # noqa: E731
    models = random_model(rng, words, 3, share=0.3, cost=same), random_model(rng, words, 1, cost=same)
    source, target, labels = rng.integers(0, 12, arcs), rng.integers(0, 12, arcs), rng.integers(1, 4, arcs)
    labels[::8] = 0
    source[::8], target[::8] = np.minimum(source[::8], target[::8]) % 6, np.maximum(source[::8], target[::8]) % 6 + 6
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(0, 6, arcs), np.zeros(arcs, np.float32)), num_states=12, num_columns=3,
        finals=dict.fromkeys(range(12), 0.0),
    )  # fmt: skip
    return over(plain, models[1], words), models


def long_lists(cost=None):
    """(graph, models): all words lead to few states, with epsilon arcs and without: lists of dozens of histories."""
    rng = np.random.default_rng(5)
    rough = {} if cost is None else {"cost": cost}
    models = random_model(rng, WORDS, 3, share=0.5, **rough), random_model(rng, WORDS, 2, share=0.3, **rough)
    arcs = [(s, t, label, w, 0.0) for s in (0, 1) for t in (0, 1) for label in (1, 2) for w in range(1, 50)]
    arcs += [(0, 2, 0, 0, 0.25), (2, 0, 1, 3, 0.0), (2, 1, 2, 0, 0.5)]
    return over(Graph.from_arcs(arcs, num_states=3, num_columns=2, finals={1: 0.0}), models[1]), models


def longer_than_lanes():
    """(graph, models): more to back off from than the lanes that look a word up together can keep."""
    rng = np.random.default_rng(3)
    words = WORDS[:2]
    models = random_model(rng, words, 11, share=0.95), random_model(rng, words, 2)
    source, target, labels = rng.integers(0, 6, 30), rng.integers(0, 6, 30), rng.integers(1, 4, 30)
    plain = Graph.from_arcs(
        (source, target, labels, rng.integers(1, 3, 30), rng.random(30).astype(np.float32)), num_states=6,
        num_columns=3, finals={0: 0.0},
    )  # fmt: skip
    return over(plain, models[1], words), models
