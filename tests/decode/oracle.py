"""The law of decoding as a page of dictionaries and loops: slow, obvious, and independent of the engines.

Every stage is written in the simplest way that can be right: the closure relaxes until nothing changes, the token log
is a path kept with every token.
"""

from typing import NamedTuple

import numpy as np

EPSILON = 0xFFFF
f32 = np.float32


class Token(NamedTuple):
    cost: np.float32
    path: tuple[int, ...]  # arc ids


class Answer(NamedTuple):
    arcs: list[int]
    total_cost: float
    reached_final: bool
    complete: bool


def decode(graph, log_probs, **options) -> Answer:
    tokens, offset, alive = search(graph, log_probs, **options)
    ends = {
        state: Token(f32(token.cost + graph.finals[state]), token.path)
        for state, token in tokens.items()
        if alive and np.isfinite(f32(token.cost + graph.finals[state]))
    }
    best = min((ends or tokens).items(), key=lambda item: (item[1].cost, item[0]))[1]
    return Answer(list(best.path), offset + float(best.cost), bool(ends), alive)


def search(graph, log_probs, *, beam, max_active=None, acoustic_scale=1.0, blank_penalty=0.0):
    """The tokens of the last live frame by state, what their costs are relative to, and whether the search is alive."""
    tokens, offset = _commit(_closure(graph, {graph.start: Token(f32(0), ())}, f32(f32(0) + f32(beam))), 0.0)
    alive = True
    for row in log_probs:
        acoustic = [f32(-(f32(acoustic_scale) * f32(logp))) for logp in row]
        if graph.blank is not None:
            acoustic[graph.blank] = f32(acoustic[graph.blank] + f32(blank_penalty))
        # (a) cut-off
        leave = leaving({state: token.cost for state, token in tokens.items()}, beam, max_active)
        # (b) emitting arcs
        candidates = [
            (f32(f32(token.cost + acoustic[graph.columns[arc]]) + graph.targets["weight"][arc]), arc, token)
            for state, token in tokens.items()
            if state in leave
            for arc in _arcs(graph, state)
            if graph.columns[arc] != EPSILON
        ]
        # (c) the exact best, then admission; (d) recombination
        finite = [cost for cost, _, _ in candidates if np.isfinite(cost)]
        if not finite:
            alive = False
            break
        bound = f32(min(finite) + f32(beam))
        winners: dict[int, Token] = {}
        for cost, arc, token in candidates:
            if np.isfinite(cost) and cost <= bound:
                _admit(winners, int(graph.targets["next_state"][arc]), Token(cost, (*token.path, arc)))
        # (e) closure, (f) survivors
        tokens, offset = _commit(_closure(graph, winners, bound), offset)
    return tokens, offset, alive


def leaving(costs, beam, max_active):
    """The keys of the tokens that leave, given the cost of each: the first ones in order of cost and key."""
    bound = f32(min(costs.values()) + f32(beam))
    within = sorted((cost, key) for key, cost in costs.items() if cost <= bound)
    return {key for _, key in within[:max_active]}


def _arcs(graph, state):
    if hasattr(graph, "arcs_of"):  # a graph with new words
        return graph.arcs_of(state)
    return range(int(graph.states["first_arc"][state]), int(graph.states["first_arc"][state + 1]))


def _admit(winners, state, token):
    old = winners.get(state)
    if old is None or (token.cost, token.path[-1]) < (old.cost, old.path[-1]):
        winners[state] = token


def _closure(graph, seeds, bound):
    """Relaxes all epsilon arcs at once, from the seeds anew, until nothing changes."""
    now = dict(seeds)
    while True:
        after = dict(seeds)
        for state, token in now.items():
            for arc in _arcs(graph, state):
                cost = f32(token.cost + graph.targets["weight"][arc])
                if graph.columns[arc] == EPSILON and np.isfinite(cost) and cost <= bound:
                    _admit(after, int(graph.targets["next_state"][arc]), Token(cost, (*token.path, arc)))
        if after == now:
            return now
        now = after


def _commit(winners, offset):
    best = min(token.cost for token in winners.values())
    return {s: Token(f32(t.cost - best), t.path) for s, t in winners.items()}, offset + float(best)
