"""Law 9 by its words: states are tuples of word ids, and every sum runs over the list of phrases.

New words are inserted outright: the graph is written out once more, with all states and arcs of the request.
"""

import numpy as np

from arcbeam.graph._graph import STATE_DTYPE, TARGET_DTYPE
from tests.decode.lattice_oracle import NoDeviations
from tests.decode.oracle import EPSILON

f32 = np.float32
UNITS = 1024


class Boosts:
    """What language models (or none) and a boost add; in the form of `rescoring_oracle.Deviations`.

    Parameters
    ----------
    phrases : dict of tuple of word ids to score
    deviations : rescoring_oracle.Deviations, optional
    depth_scaling : float
    """

    def __init__(self, phrases, deviations=None, depth_scaling=1.0):
        self.phrases = {phrase: round(score * UNITS) for phrase, score in phrases.items()}
        self.deviations = deviations or NoDeviations()
        self.weights = [1.0] + [depth_scaling] * max(map(len, phrases), default=0)

    def start(self):
        return self.deviations.start(), ()

    def __call__(self, history, word):
        added, following = self.deviations(history[0], word)
        cost, state = self.step(history[1], word)
        return (added, cost), (following, state)

    def end(self, history):
        return self.deviations.end(history[0]), self.unfinished(history)

    def unfinished(self, history):
        return f32(self.potential(history[1]) / UNITS)

    def step(self, state, word):
        """What the word adds to a cost, and the state after it."""
        said = (*state, word)
        after = next(said[i:] for i in range(len(said) + 1) if self.begins(said[i:]))
        return f32((self.potential(state) - self.potential(after) - self.completed(said)) / UNITS), after

    def begins(self, words):
        """Whether a phrase begins with these words and goes on."""
        return not words or any(len(phrase) > len(words) and phrase[: len(words)] == words for phrase in self.phrases)

    def potential(self, state):
        """The largest share among the phrases that the state, or a shorter suffix, begins."""
        shares = [0]
        for i in range(len(state)):
            begun = state[i:]
            for phrase, score in self.phrases.items():
                if len(phrase) > len(begun) and phrase[: len(begun)] == begun:
                    part = sum(self.weights[: len(begun)]) / sum(self.weights[: len(phrase)])
                    shares.append(round(score * part))
        return max(shares)

    def completed(self, said):
        """The scores of all phrases that these words end with."""
        return sum(score for phrase, score in self.phrases.items() if said[-len(phrase) :] == phrase)


class WithNewWords:
    """A graph in whose open slot new words stand, in the form in which the oracles read graphs.

    States of the request are the beginnings of spellings in lexicographic order, each with its blanks after it.

    Parameters
    ----------
    graph : Graph
    spellings : dict of str to list of tuple of columns
    loops, repeats_need_blank : bool
        The topology.
    """

    def __init__(self, graph, spellings, loops=True, repeats_need_blank=False):
        slot, symbols = graph.open_slot, dict(graph.word_symbols.items())
        self.start, self.blank, self.max_depth = graph.start, graph.blank, graph.max_depth
        first_word = max(max(symbols), *graph.words.tolist(), 0) + 1
        ids = {word: first_word + at for at, word in enumerate(sorted(spellings))}
        self.first_word = first_word
        self.word_symbols = symbols | dict.fromkeys(ids.values(), "<unk>")
        ends = [(tuple(spelling), ids[word]) for word in ids for spelling in spellings[word]]
        nodes = sorted({spelling[:n] for spelling, _ in ends for n in range(len(spelling) + 1)})
        owners = {node: {word for spelling, word in ends if spelling[: len(node)] == node} for node in nodes}
        children = {node: [other for other in nodes if other[:-1] == node and other] for node in nodes}
        has_blanks = {node for node in nodes if node and children[node] and graph.blank is not None}

        self.entering = {}  # arcs of the request that leave a state of the graph
        arcs, states = [], []  # (state, column, next state, weight, word); (state, depth)
        first, number = {}, graph.num_states
        for leave_to in sorted(set(slot.exits.tolist())):
            places = {}
            for node in nodes:
                for kind in ("token", "blank") if node in has_blanks else ("token",):
                    places[node, kind] = number
                    number += 1
            into = slot.entrances[slot.exits == leave_to]
            outermost = 1 + int(graph.states["depth"][into].max())
            first[leave_to] = places[(), "token"]
            for (node, kind), at in places.items():
                states.append((at, outermost if node == () else 0))
                leaving = []
                for child in children[node]:
                    word = next(iter(owners[child])) if len(owners[child]) == 1 else 0
                    word = word if node == () or len(owners[node]) > 1 else 0
                    if not (repeats_need_blank and kind == "token" and node[-1:] == child[-1:]):
                        leaving.append((child[-1], places[child, "token"], word))
                if node:
                    if kind == "blank":
                        leaving.append((graph.blank, at, 0))
                    else:
                        if loops:
                            leaving.insert(0, (node[-1], at, 0))
                        if node in has_blanks:
                            leaving.append((graph.blank, places[node, "blank"], 0))
                        ending = sorted({word for spelling, word in ends if spelling == node})
                        arcs += [(at, EPSILON, leave_to, 0.0, w if len(owners[node]) > 1 else 0) for w in ending]
                leaving.sort(key=lambda arc: arc[0])
                arcs += [(at, column, to, 0.0, word) for column, to, word in leaving]
        entering = [
            (source, EPSILON, first[leave_to], weight, 0)
            for source, weight, leave_to in zip(
                slot.entrances.tolist(), slot.weights.tolist(), slot.exits.tolist(), strict=True
            )
        ]
        for at, (source, *_) in enumerate(entering):
            self.entering.setdefault(source, []).append(graph.num_arcs + at)
        self.own = {}
        for at, (source, *_) in enumerate(arcs, graph.num_arcs + len(entering)):
            self.own.setdefault(source, []).append(at)
        added = [*entering, *arcs]
        self.added = added
        self.graph = graph
        records = [(0, 0, 0.0, depth) for _, depth in states]
        self.states = np.concatenate([graph.states[:-1], np.array(records, STATE_DTYPE)])
        self.targets = np.concatenate([graph.targets, np.array([(to, w) for _, _, to, w, _ in added], TARGET_DTYPE)])
        self.columns = np.concatenate([graph.columns, np.array([column for _, column, *_ in added], np.uint16)])
        self.words = np.concatenate([graph.words, np.array([word for *_, word in added], np.uint32)])
        self.finals = np.concatenate([graph.finals, np.full(len(states), np.inf, np.float32)])

    def arcs_of(self, state):
        """The ids of the arcs that leave a state."""
        if state >= self.graph.num_states:
            return self.own.get(state, [])
        first = self.graph.states["first_arc"]
        return [*range(int(first[state]), int(first[state + 1])), *self.entering.get(state, [])]
