"""Lattices of random small graphs, by a search that drops nothing and keeps every link."""

import numpy as np

from arcbeam import Graph, SymbolTable, TokenTable
from arcbeam.ctc.lattice._lattices import LINK, Lattices
from arcbeam.ctc.lattice.arrays import LatticeBatch
from arcbeam.ctc.lattice.lattice import Lattice

EPSILON = 0xFFFF
COLUMNS = 4
f32 = np.float32


def random_graph(rng, words, states=6, arcs=16):
    """Epsilon arcs lead to larger states, so that they form no cycle; costs are multiples of 1/64."""
    found = [(s, int(rng.integers(states)), int(rng.integers(1, COLUMNS + 1)), 0, 0.0) for s in range(states)]
    for _ in range(arcs):
        source, target = (int(s) for s in rng.integers(states, size=2))
        label = int(rng.integers(0, COLUMNS + 1)) if source < target else int(rng.integers(1, COLUMNS + 1))
        word = int(rng.integers(1, len(words) + 1)) if rng.random() < 0.4 else 0
        found.append((source, target, label, word, float(rng.integers(0, 640)) / 64))
    finals = {int(s): float(rng.integers(0, 64)) / 64 for s in rng.integers(0, states, 2)}
    return Graph.from_arcs(
        found, finals=finals, num_states=states, tokens=TokenTable(["a", "b", "c", "<blank>"], 3),
        word_symbols=SymbolTable.from_list(["<eps>", *words]),
    )  # fmt: skip


def log_probs(rng, frames):
    return (-rng.integers(0, 512, (frames, COLUMNS)) / 64).astype(np.float32)


def search(graph, rows, beam, deviations=None, acoustic_scale=1.0):
    """The arrays of a lattice, law 8 as dictionaries and loops. A token's key is (state, history)."""
    history = None if deviations is None else deviations.start()
    steps = [_closure(graph, {(graph.start, history): [(f32(0), None, None)]}, deviations)]
    for row in rows:
        candidates = {}
        for key, ways in steps[-1].items():
            cost = min(way[0] for way in ways)
            for arc in _arcs(graph, key[0]):
                if graph.columns[arc] != EPSILON:
                    acoustic = f32(-f32(f32(acoustic_scale) * row[graph.columns[arc]]))
                    _follow(graph, deviations, candidates, key, arc, f32(cost + acoustic), len(steps) - 1)
        steps.append(_closure(graph, candidates, deviations, len(steps)))
    return _arrays(graph, steps, beam, deviations)


def _arcs(graph, state):
    return range(int(graph.states["first_arc"][state]), int(graph.states["first_arc"][state + 1]))


def _follow(graph, deviations, ways, key, arc, cost, step):
    cost, history = f32(cost + graph.targets["weight"][arc]), key[1]
    if deviations is not None and graph.words[arc]:
        added, history = deviations(history, int(graph.words[arc]))
        cost = f32(cost + added)
    ways.setdefault((int(graph.targets["next_state"][arc]), history), []).append((cost, (step, key), arc))


def _closure(graph, ways, deviations, step=0):
    done = {}
    while waiting := set(ways) - set(done):
        key = min(waiting, key=lambda k: (graph.states["depth"][k[0]], k))
        done[key] = ways[key]
        for arc in _arcs(graph, key[0]):
            if graph.columns[arc] == EPSILON:
                _follow(graph, deviations, ways, key, arc, min(way[0] for way in ways[key]), step)
    return done


def _arrays(graph, steps, beam, deviations):
    best = {(s, key): min(way[0] for way in ways) for s, step in enumerate(steps) for key, ways in step.items()}
    last = len(steps) - 1
    ends = {}
    for key in steps[last]:
        end = graph.finals[key[0]] + (f32(0) if deviations is None else deviations.end(key[1]))
        ends[last, key] = f32(best[last, key] + end)
    reached_final = any(np.isfinite(cost) for cost in ends.values())
    if not reached_final:
        ends = {token: best[token] for token in ends}
    least = min(ends.values())
    ends = {token: float(cost - least) for token, cost in ends.items()}
    extras = dict(ends)
    links = []
    for s in range(last, -1, -1):
        for key, ways in reversed(steps[s].items()):  # an epsilon link's source stands before its target
            for cost, source, arc in ways:
                slack = f32(cost - best[s, key])
                rest = float(slack) + extras.get((s, key), np.inf)
                if source is not None and rest <= beam:
                    links.append((source, (s, key), arc, slack))
                    extras[source] = min(extras.get(source, np.inf), rest)
    depth = graph.states["depth"]
    kept = sorted((t for t, extra in extras.items() if extra <= beam), key=lambda t: (t[0], depth[t[1][0]], t[1]))
    number = {token: i for i, token in enumerate(kept)}
    made = np.array(sorted((number[a], number[b], arc, slack) for a, b, arc, slack in links), LINK)
    made = made[np.lexsort((made["arc"], made["source"]))]
    firsts = np.searchsorted([t[0] for t in kept], np.arange(last + 2))
    arrays = {
        "first_token": firsts.astype(np.uint32),
        "states": np.array([t[1][0] for t in kept], np.uint32),
        "costs": np.array([float(best[t]) for t in kept]),
        "links": made,
        "first_link": np.searchsorted(made["source"], np.arange(len(kept) + 1)).astype(np.uint32),
        "end_extras": np.array([ends.get(t, np.inf) for t in kept[firsts[last] :]], np.float32),
        "total_cost": float(least),
        "reached_final": reached_final,
        "complete": True,
    }
    path = []
    token = kept[int(firsts[last]) + int(np.argmin(arrays["end_extras"]))]
    while number[token] != 0:
        into = np.flatnonzero((made["target"] == number[token]) & (made["slack"] == 0))
        path.append(int(into[0]))
        token = kept[made["source"][into[0]]]
    return arrays | {"best": np.array(path[::-1], np.uint32)}


def random_lattice(seed, frames=7, beam=6.0, frame_shift=0.04, acoustic_scale=0.5):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, ["one", "two", "three", "über", "five"])
    arrays = search(graph, log_probs(rng, frames), beam, acoustic_scale=acoustic_scale)
    return lattice_of(graph, arrays, frame_shift=frame_shift, acoustic_scale=acoustic_scale)


def lattice_of(graph, arrays, **about):
    return Lattice(LatticeBatch(graph, Lattices.of_arrays([arrays]), **about), 0)


def nothing(graph):
    """The lattice of an utterance that could not be decoded."""
    empty = {name: [] for name in ("first_token", "states", "costs", "first_link", "end_extras", "best")}
    about = {"links": np.zeros(0, LINK), "total_cost": np.inf, "reached_final": False, "complete": False}
    return lattice_of(graph, empty | about)


def paths(lattice):
    """All paths of a lattice: (cost, words, labels), smallest first."""
    leaving = {}
    for i, link in enumerate(lattice.links.tolist()):
        leaving.setdefault(link[0], []).append((i, link[1]))
    found, pending = [], [(0, 0.0, (), ())]
    while pending:
        token, cost, words, labels = pending.pop()
        if np.isfinite(lattice.final_scores[token]):
            found.append((cost - lattice.final_scores[token], words, labels))
        for i, target in leaving.get(token, ()):
            word, column = int(lattice.words[i]), int(lattice.columns[i])
            pending.append(
                (
                    target, cost - lattice.scores[i], words + (word,) * (word != 0),
                    labels + (column + 1,) * (column != EPSILON),
                )
            )  # fmt: skip
    return sorted(found)
