"""Larger graphs and log-probs from a seed, real-valued and quick to make: for invariances, not counter-examples."""

import numpy as np

from arcbeam import Graph, TokenTable


def random_graph(seed, states=2000, arcs_a_state=4, columns=32, epsilon_share=0.3):
    """A graph of the densest kind: epsilon arcs everywhere, and a few states of high degree."""
    rng = np.random.default_rng(seed)
    n = states * arcs_a_state
    source = rng.integers(0, states, n)
    destination = rng.integers(0, states, n)
    epsilon = rng.random(n) < epsilon_share
    epsilon &= source != destination
    low, high = np.minimum(source, destination), np.maximum(source, destination)
    source, destination = np.where(epsilon, low, source), np.where(epsilon, high, destination)
    # A few states of high degree, to reach the search by column.
    hub = rng.integers(0, states, 400)
    source = np.concatenate([source, np.repeat(rng.integers(0, states, 8), 50)])
    destination = np.concatenate([destination, hub])
    labels = np.where(np.concatenate([epsilon, np.zeros(400, bool)]), 0, rng.integers(1, columns + 1, len(source)))
    words = np.where(rng.random(len(source)) < 0.2, rng.integers(1, 50, len(source)), 0)
    weights = rng.gamma(1.0, 2.0, len(source)).astype(np.float32)
    finals = {
        int(s): float(w) for s, w in zip(rng.integers(0, states, states // 10), rng.random(states // 10), strict=True)
    }
    return Graph.from_arcs(
        (source, destination, labels, words, weights),
        start=0,
        finals=finals,
        num_states=states,
        num_columns=columns,
        tokens=TokenTable.from_list([f"t{i}" for i in range(columns - 1)] + ["<blank>"]),
    )


def random_log_probs(seed, frames, columns=32, sharpness=4.0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(frames, columns)) * sharpness
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)
