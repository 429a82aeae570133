"""Random decoding graphs and log-probs for hypothesis. Weights are multiples of 1/64, so that sums tie exactly."""

import numpy as np
from hypothesis import strategies as st

from arcbeam import Graph
from tests.decode.random_graphs import random_graph, random_log_probs

__all__ = ["Graph", "graphs", "log_probs", "random_graph", "random_log_probs", "sixty_fourths"]

COLUMNS = 4


def sixty_fourths(low, high):
    return st.integers(int(low * 64), int(high * 64)).map(lambda n: n / 64)


@st.composite
def graphs(draw, max_states=9, max_arcs=30, columns=COLUMNS, blank=None):
    """Any graph the law allows: epsilon chains and diamonds, ties, dead ends, unreachable states, no final state."""
    n = draw(st.integers(1, max_states))
    rank = draw(st.permutations(range(n)))  # epsilon arcs go up in rank, so they form no cycle
    weights = draw(st.sampled_from([sixty_fourths(-1, 3), st.sampled_from([0.0, 0.5, 1.0]), st.just(0.0)]))
    weights = st.one_of(weights, weights, weights, weights, st.just(float("inf")))
    state = st.integers(0, n - 1)
    arcs = []
    for _ in range(draw(st.integers(0, max_arcs))):
        a, b = draw(state), draw(state)
        label = draw(st.integers(0, columns))
        if label == 0:
            if rank[a] == rank[b]:
                continue
            a, b = (a, b) if rank[a] < rank[b] else (b, a)
        arcs.append((a, b, label, draw(st.integers(0, 3)), draw(weights)))
    finals = draw(st.dictionaries(state, sixty_fourths(0, 2), max_size=n))
    return Graph.from_arcs(arcs, start=draw(state), finals=finals, num_states=n, num_columns=columns, blank=blank)


@st.composite
def log_probs(draw, max_frames=6, columns=COLUMNS):
    """float32[frames, columns] in multiples of 1/64, with -inf here and there."""
    frames = draw(st.integers(0, max_frames))
    value = st.one_of(sixty_fourths(-4, 0), sixty_fourths(-4, 0), sixty_fourths(-4, 0), st.just(float("-inf")))
    rows = draw(st.lists(st.lists(value, min_size=columns, max_size=columns), min_size=frames, max_size=frames))
    return np.array(rows, dtype=np.float32).reshape(frames, columns)
