"""Law 8 as dictionaries and loops: a search that keeps every admitted candidate, and the lattice that remains of them.

A token's key is (graph state, history); without language models every history is (). A *node* is (step, key), where
step 0 is the closure of the start state and step t follows frame t - 1.
"""

from typing import NamedTuple

import numpy as np

from tests.decode.oracle import EPSILON, _arcs, leaving
from tests.decode.rescoring_oracle import plus

f32 = np.float32
START = 0xFFFFFFFF


class Candidate(NamedTuple):
    """A way to a node; the smallest wins."""

    cost: np.float32
    arc: int
    history: tuple  # of the source
    source: tuple | None  # node


class NoDeviations:
    """In place of language models."""

    def start(self):
        return ()

    def __call__(self, history, word):
        return f32(0), history

    def end(self, history):
        return f32(0)

    def unfinished(self, history):
        return f32(0)


def decode(
    graph, log_probs, *, beam, lattice_beam, deviations=None, hypotheses_per_state=None, max_active=None,
    acoustic_scale=1.0,
):  # fmt: skip
    """The arrays of `Lattices.arrays` (ctc/lattice); the links are a list of (source, target, arc, slack)."""
    deviations = deviations or NoDeviations()
    seeds = {(graph.start, deviations.start()): [Candidate(f32(0), START, (), None)]}
    steps = [closure(graph, deviations, seeds, f32(f32(0) + f32(beam)), 0, hypotheses_per_state)]
    tokens, offsets = commit(steps[0], 0.0)
    costs, alive = [tokens], True
    offsets = [offsets]
    for t, row in enumerate(log_probs):
        acoustic = [f32(-(f32(acoustic_scale) * f32(logp))) for logp in row]
        leave = leaving(tokens, beam, max_active)
        kept = [
            (f32(f32(cost + acoustic[graph.columns[arc]]) + graph.targets["weight"][arc]), arc, key)
            for key, cost in tokens.items()
            if key in leave
            for arc in _arcs(graph, key[0])
            if graph.columns[arc] != EPSILON
        ]
        rescored = []
        for cost, arc, (state, history) in admitted(kept, beam)[0]:
            added, following = deviation(graph, deviations, history, arc)
            key = int(graph.targets["next_state"][arc]), following
            rescored.append((plus(cost, added), key, Candidate(plus(cost, added), arc, history, (t, (state, history)))))
        passed, bound = admitted(rescored, beam)
        if not passed:
            alive = False
            break
        seeds = {}
        for _, key, candidate in passed:
            seeds.setdefault(key, []).append(candidate)
        steps.append(closure(graph, deviations, seeds, bound, t + 1, hypotheses_per_state))
        tokens, offset = commit(steps[-1], offsets[-1])
        costs.append(tokens)
        offsets.append(offset)

    # The ends
    ends = {}
    for (state, history), cost in tokens.items():
        final = f32(cost + graph.finals[state])
        ends[state, history] = plus(final, deviations.end(history)) if np.isfinite(final) else final
    ends = {key: cost for key, cost in ends.items() if alive and np.isfinite(cost)}
    unfinished = {key: plus(cost, deviations.unfinished(key[1])) for key, cost in tokens.items()}
    reached_final, ends = bool(ends), ends or unfinished
    best_key = min(ends, key=lambda key: (ends[key], key))
    best_end = ends[best_key]
    nodes = {(t, key): candidates for t, step in enumerate(steps) for key, candidates in step.items()}
    end_extras = {(len(steps) - 1, key): f32(cost - best_end) for key, cost in ends.items()}
    end_extras = {node: extra for node, extra in end_extras.items() if extra <= lattice_beam}
    best = []  # (source, arc, target), the last first
    node = (len(steps) - 1, best_key)
    while nodes[node][0].source is not None:
        best.append((nodes[node][0].source, nodes[node][0].arc, node))
        node = best[-1][0]

    # Slacks, extras and what stays
    links = [
        (candidate.source, node, candidate.arc, f32(candidate.cost - candidates[0].cost))
        for node, candidates in nodes.items()
        for candidate in candidates
        if candidate.source is not None
    ]
    if alive:
        links, left = pruned(graph, links, end_extras, f32(lattice_beam))
    else:
        links = [link for link in links if (link[0], link[2], link[1]) in best]
        left = {node, *(target for _, _, target in best)}
        end_extras = {(len(steps) - 1, best_key): f32(0)}

    # Numbers
    number, states, found_costs, first_token = {}, [], [], [0]
    for t, step in enumerate(steps):
        keys = [key for key in step if (t, key) in left]
        for depth in sorted({int(graph.states["depth"][state]) for state, _ in keys}):
            here = []
            for key in keys:
                if graph.states["depth"][key[0]] == depth:
                    winner = step[key][0]
                    here.append((key[0], winner.arc, -1 if winner.source is None else number[winner.source], key))
            for state, _, _, key in sorted(here):
                number[t, key] = len(number)
                states.append(state)
                found_costs.append(offsets[t] + float(costs[t][key]))
        first_token.append(len(number))
    numbered = sorted((number[a], arc, number[b], slack) for a, b, arc, slack in links)
    places = {(source, arc): i for i, (source, arc, _, _) in enumerate(numbered)}
    last = sorted((number[node], node) for node in left if node[0] == len(steps) - 1)
    return {
        "first_token": first_token,
        "states": states,
        "costs": found_costs,
        "links": [(source, target, arc, float(slack)) for source, arc, target, slack in numbered],
        "first_link": [sum(source < token for source, *_ in numbered) for token in range(len(number) + 1)],
        "end_extras": [float(end_extras.get(node, np.inf)) for _, node in last],
        "best": [places[number[source], arc] for source, arc, _ in reversed(best)],
        "total_cost": offsets[-1] + float(best_end),
        "reached_final": reached_final,
        "complete": alive,
    }


def pruned(graph, links, end_extras, lattice_beam):
    """The links that stay, and the nodes. Extras are settled node by node, from the last back to the first."""
    stays = lambda extra: bool(np.isfinite(extra) and extra <= lattice_beam)  # noqa: E731
    leaving = {}
    for link in links:
        leaving.setdefault(link[0], []).append(link)
    nodes = {node for link in links for node in link[:2]} | set(end_extras)
    extra = {}
    for node in sorted(nodes, key=lambda node: (node[0], graph.states["depth"][node[1][0]]), reverse=True):
        ways = [f32(slack + extra[target]) for _, target, _, slack in leaving.get(node, [])]
        extra[node] = min([*ways, end_extras.get(node, f32(np.inf))])
    return [link for link in links if stays(f32(link[3] + extra[link[1]]))], {n for n in nodes if stays(extra[n])}


def admitted(candidates, beam):
    """Those whose cost, their first value, is finite and within the bound; and the bound."""
    finite = [candidate for candidate in candidates if np.isfinite(candidate[0])]
    if not finite:
        return [], None
    bound = f32(min(candidate[0] for candidate in finite) + f32(beam))
    return [candidate for candidate in finite if candidate[0] <= bound], bound


def deviation(graph, deviations, history, arc):
    word = int(graph.words[arc])
    return deviations(history, word) if word else (f32(0), history)


def closure(graph, deviations, seeds, bound, step, n):
    """Follows states in the order of depth, each cut before. Returns the candidates of each key, the winner first."""
    depth = graph.states["depth"]
    waiting, done = {key: list(candidates) for key, candidates in seeds.items()}, {}
    while waiting:
        state = min({state for state, _ in waiting}, key=lambda s: (depth[s], s))
        here = {key: sorted(waiting.pop(key)) for key in list(waiting) if key[0] == state}
        for key in sorted(here, key=lambda key: (here[key][0].cost, key[1]))[:n]:
            done[key] = here[key]
            for arc in _arcs(graph, state):
                cost = f32(here[key][0].cost + graph.targets["weight"][arc])
                if graph.columns[arc] != EPSILON or not (np.isfinite(cost) and cost <= bound):
                    continue
                added, following = deviation(graph, deviations, key[1], arc)
                cost = plus(cost, added) if graph.words[arc] else cost
                if np.isfinite(cost) and cost <= bound:
                    candidate = Candidate(cost, arc, key[1], (step, key))
                    waiting.setdefault((int(graph.targets["next_state"][arc]), following), []).append(candidate)
    return done


def commit(step, offset):
    """Costs relative to the best, and the offset with it."""
    best = min(candidates[0].cost for candidates in step.values())
    return {key: f32(candidates[0].cost - best) for key, candidates in step.items()}, offset + float(best)
