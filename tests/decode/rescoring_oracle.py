"""The law of decoding with a large language model, as dictionaries and loops: slow, obvious, independent of the engine.

Language models are requested as their definition has it, word by word from the whole history.
"""

from typing import NamedTuple

import numpy as np

from tests.decode.oracle import EPSILON, Answer, _arcs, leaving
from tests.lm.index import backoff_state, first_arc

f32 = np.float32


class Token(NamedTuple):
    cost: np.float32
    path: tuple[int, ...]  # arc ids
    source: tuple[int, int]  # histories of the token it came from


def step(model, state, label):
    """Cost and next state of a label, by the columns of the model; back-offs from the longest history down."""
    columns, sum_ = model.columns, f32(0)
    while True:
        begin, end = first_arc(model, state), first_arc(model, state + 1)
        for arc in range(begin, end):
            if label_of(model, arc) == label:
                return f32(sum_ + columns["arcs"]["weight"][arc]), int(columns["arcs"]["next_state"][arc])
        if state == 0:
            assert label == 0, "a label that state 0 does not have"
            return f32(sum_ + f32(230.2585093)), 0
        sum_ = f32(sum_ + columns["backoff.weights"][state])
        state = backoff_state(model, state)


def label_of(model, arc):
    bits = model.about["high_bits"]
    low = int(model.columns["labels.low"][arc])
    if not bits:
        return low
    packed = "".join(f"{int(w):032b}"[::-1] for w in model.columns["labels.high"])
    return low | int(packed[arc * bits : (arc + 1) * bits][::-1], 2) << 16


def plus(cost, added):
    """A cost with an addend, or with several, one after another."""
    for one in added if isinstance(added, tuple) else (added,):
        cost = f32(cost + one)
    return cost


class Deviations:
    """What rescoring adds, from the two models and the graph's words in them."""

    def __init__(self, graph, large, small, lm_scale=1.0, graph_lm_scale=1.0, keep=()):
        self.graph, self.large, self.small, self.keep = graph, large, small, set(keep)
        self.scales = f32(lm_scale), f32(graph_lm_scale)

    def start(self):
        return self.large.start, self.small.start

    def __call__(self, history, word):
        text = self.graph.word_symbols[word]
        large_label = self.large.label(text) or self.large.unknown_label
        large, next_large = step(self.large, history[0], large_label)
        small_label = self.small.label(text) or self.small.unknown_label
        small, next_small = step(self.small, history[1], small_label)
        cost = f32(0) if text in self.keep else self._cost(large, small)
        return cost, (next_large, next_small)

    def end(self, history):
        return self._cost(
            step(self.large, history[0], self.large.end_label)[0], step(self.small, history[1], self.small.end_label)[0]
        )

    def unfinished(self, history):
        """What a path ends with where no sentence does."""
        return f32(0)

    def _cost(self, large, small):
        return f32(f32(self.scales[0] * large) - f32(self.scales[1] * small))


def decode(graph, deviations, log_probs, **options) -> Answer:
    tokens, offset, alive = search(graph, deviations, log_probs, **options)
    ends = {}
    for (state, history), token in tokens.items():
        cost = f32(token.cost + graph.finals[state])
        if alive and np.isfinite(cost) and np.isfinite(plus(cost, deviations.end(history))):
            ends[state, history] = Token(plus(cost, deviations.end(history)), token.path, history)
    best = min((ends or unfinished(deviations, tokens)).items(), key=lambda item: (item[1].cost, item[0]))[1]
    return Answer(list(best.path), offset + float(best.cost), bool(ends), alive)


def unfinished(deviations, tokens):
    """The tokens with what they cost where no sentence ends."""
    return {key: t._replace(cost=plus(t.cost, deviations.unfinished(key[1]))) for key, t in tokens.items()}


def search(
    graph, deviations, log_probs, *, beam, hypotheses_per_state=None, max_active=None,
    acoustic_scale=1.0,
):  # fmt: skip
    """The tokens of the last live frame by state and history, what their costs are relative to, and whether the search
    is alive."""
    seeds = {(graph.start, deviations.start()): Token(f32(0), (), (0, 0))}
    stages = Search(graph, deviations, hypotheses_per_state)
    tokens, offset = commit(stages.closure(seeds, f32(f32(0) + f32(beam))), 0.0)
    alive = True
    for row in log_probs:
        acoustic = [f32(-(f32(acoustic_scale) * f32(logp))) for logp in row]
        # (a) cut-off
        leave = leaving({key: token.cost for key, token in tokens.items()}, beam, max_active)
        # (b) emitting arcs
        candidates = [
            (f32(f32(token.cost + acoustic[graph.columns[arc]]) + graph.targets["weight"][arc]), arc, key[1], token)
            for key, token in tokens.items()
            if key in leave
            for arc in _arcs(graph, key[0])
            if graph.columns[arc] != EPSILON
        ]
        # (c1) kept, (c2) looked up, (c3) the rescored best, then admission
        finite = [cost for cost, *_ in candidates if np.isfinite(cost)]
        if not finite:
            alive = False
            break
        kept = f32(min(finite) + f32(beam))
        rescored = []
        for cost, arc, history, token in candidates:
            if np.isfinite(cost) and cost <= kept:
                added, following = stages.deviation(history, arc)
                rescored.append((plus(cost, added), arc, history, following, token))
        finite = [cost for cost, *_ in rescored if np.isfinite(cost)]
        if not finite:
            alive = False
            break
        bound = f32(min(finite) + f32(beam))
        winners: dict = {}
        for cost, arc, history, following, token in rescored:
            if np.isfinite(cost) and cost <= bound:
                key = int(graph.targets["next_state"][arc]), following
                admit(winners, key, Token(cost, (*token.path, arc), history))
        tokens, offset = commit(stages.closure(winners, bound), offset)
    return tokens, offset, alive


class Search:
    def __init__(self, graph, deviations, hypotheses_per_state):
        self.graph, self.deviations = graph, deviations
        self.n = hypotheses_per_state

    def deviation(self, history, arc):
        word = int(self.graph.words[arc])
        return self.deviations(history, word) if word else (f32(0), history)

    def closure(self, seeds, bound):
        """State by state in the order of depth, each cut before it is followed."""
        depth = self.graph.states["depth"]
        waiting, done = dict(seeds), {}
        while waiting:
            state = min({state for state, _ in waiting}, key=lambda s: (depth[s], s))
            of_state = [(token.cost, history) for (s, history), token in waiting.items() if s == state]
            kept = {history for _, history in sorted(of_state)[: self.n]}
            here = {key: waiting.pop(key) for key in list(waiting) if key[0] == state}
            for key, token in here.items():
                if key[1] not in kept:
                    continue
                done[key] = token
                for arc in _arcs(self.graph, state):
                    if self.graph.columns[arc] != EPSILON:
                        continue
                    cost = f32(token.cost + self.graph.targets["weight"][arc])
                    if not (np.isfinite(cost) and cost <= bound):
                        continue
                    added, following = self.deviation(key[1], arc)
                    cost = plus(cost, added) if self.graph.words[arc] else cost
                    if np.isfinite(cost) and cost <= bound:
                        target = int(self.graph.targets["next_state"][arc])
                        admit(waiting, (target, following), Token(cost, (*token.path, arc), key[1]))
        return done


def admit(winners, key, token):
    old = winners.get(key)
    if old is None or (token.cost, token.path[-1], token.source) < (old.cost, old.path[-1], old.source):
        winners[key] = token


def commit(winners, offset):
    best = min(token.cost for token in winners.values())
    return {k: t._replace(cost=f32(t.cost - best)) for k, t in winners.items()}, offset + float(best)
