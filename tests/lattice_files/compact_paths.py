"""What compact lattices hold, by walks over their arcs; and random ones."""

from collections import defaultdict

import numpy as np

from arcbeam.lattices.compact_lattice import ARC, FINAL
from arcbeam.lattices.kaldi_lattice import KaldiLattice


def all_paths(lattice, scale):
    """[(words, labels, graph cost, scaled acoustic cost)] of all paths."""
    leaving, begins = defaultdict(list), lattice.label_begins
    for i, arc in enumerate(lattice.arcs.tolist()):
        leaving[arc[0]].append((*arc[1:], tuple(lattice.labels[begins[i] : begins[i + 1]].tolist())))
    found, pending = [], [(lattice.start, (), (), 0.0, 0.0)] if lattice.num_states else []
    while pending:
        state, words, labels, graph, acoustic = pending.pop()
        end_graph, end_acoustic = lattice.finals[state].tolist()
        if np.isfinite(end_graph):
            ends = lattice.final_labels[lattice.final_label_begins[state] : lattice.final_label_begins[state + 1]]
            found.append((words, labels + tuple(ends.tolist()), graph + end_graph, acoustic + scale * end_acoustic))
        for target, word, of_graph, of_acoustic, string in leaving[state]:
            pending.append(
                (
                    target,
                    words + (word,) * (word != 0),
                    labels + string,
                    graph + of_graph,
                    acoustic + scale * of_acoustic,
                )
            )
    return found


def best_paths(lattice, scale):
    """{words: (cost, graph cost, number of labels, labels, but negative)} of the best path of each word sequence."""
    found = {}
    for words, labels, graph, acoustic in all_paths(lattice, scale):
        path = graph + acoustic, graph, len(labels), tuple(-label for label in labels)
        found[words] = min(found.get(words, (np.inf,)), path)
    return found


def random_compact(rng, *, states=7, arcs=14, words=3, silent=0.4, labels=2, costs=8):
    """Any acyclic lattice, its states in any order. Costs are `costs` multiples of 1/4, so that ties are frequent."""
    numbers = rng.permutation(states)
    ends = np.sort(np.stack([rng.integers(0, states, arcs), rng.integers(0, states, arcs)]), axis=0)
    sources, targets = ends[:, ends[0] != ends[1]]
    count = len(sources)
    made = np.zeros(count, ARC)
    made["source"], made["target"] = numbers[sources], numbers[targets]
    made["word"] = np.where(rng.random(count) < silent, 0, rng.integers(1, words + 1, count))
    made["graph_cost"], made["acoustic_cost"] = rng.integers(-2, costs - 2, (2, count)) / 4
    made = made[np.argsort(made["source"], kind="stable")]
    finals = np.full(states, np.inf, FINAL)
    is_end = rng.random(states) < 0.4
    finals["graph_cost"][is_end], finals["acoustic_cost"][is_end] = rng.integers(0, costs, (2, int(is_end.sum()))) / 4
    lengths, end_lengths = rng.integers(0, 3, count), np.where(is_end, rng.integers(0, 2, states), 0)
    return KaldiLattice(
        int(numbers[0]), made, *_labels(rng, lengths, labels), finals, *_labels(rng, end_lengths, labels)
    )


def _labels(rng, lengths, labels):
    begins = np.append(0, np.cumsum(lengths)).astype(np.int64)
    return rng.integers(1, labels + 1, int(begins[-1])).astype(np.int32), begins


def bushes(count):
    """Words 1 or 2, `count` times; costs and alignments of each sequence differ so that no two share a state."""
    arcs, labels = [], []
    for i in range(count):
        for side in (1, 2):  # two ways of saying the same, between which a path cannot change
            source, target = (0 if i == 0 else 2 * i - 2 + side), 2 * i + side
            for word in (1, 2):
                arcs.append((source, target, word, 2.0**-i * (side == word), 0.0))
                labels.append(10 * side + word)
    order = sorted(range(len(arcs)), key=lambda i: arcs[i][0])
    finals = np.full(2 * count + 1, np.inf, FINAL)
    finals[-2:] = 0.0
    return KaldiLattice(
        0, np.array([arcs[i] for i in order], ARC), np.array([labels[i] for i in order], np.int32),
        np.arange(len(arcs) + 1), finals, np.zeros(0, np.int32), np.zeros(len(finals) + 1, np.int64),
    )  # fmt: skip
