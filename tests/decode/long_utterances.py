"""A tiny graph on which histories stay apart for as long as the log-probs want, and log-probs that want it."""

import numpy as np

from arcbeam import Graph

STAY, SLIP, MEET = 1, 2, 3  # labels
COLUMNS = 3


def arcs():
    """Two ways from the start, which stay apart until they meet; epsilon arcs lead back to the start, and aside."""
    found = [(0, 1, STAY, 1, 0.25), (0, 2, STAY, 2, 0.5), (1, 1, STAY, 3, 0.0), (2, 2, STAY, 3, 0.0)]
    found += [(1, 4, MEET, 1, 0.0), (2, 4, MEET, 2, 0.0), (4, 0, 0, 0, 0.0), (1, 3, 0, 1, 0.5), (2, 3, 0, 2, 0.125)]
    return [*found, (3, 1, SLIP, 2, 0.0), (3, 5, SLIP, 1, 0.0), (5, 3, 0, 0, 0.25), (5, 1, MEET, 0, 0.5)]


def graph():
    return Graph.from_arcs(arcs(), finals={1: 0.5, 2: 0.0, 4: 0.25}, num_states=6, num_columns=COLUMNS)


def log_probs(frames, meet_every, seed=0):
    """float32[frames, 3]: the ways meet in every so many frames, never for 0; in between each frame is likely STAY."""
    rng = np.random.default_rng(seed)
    rows = np.tile(np.array([-0.25, -3.0, -9.0], np.float32), (frames, 1))
    rows += rng.integers(-8, 8, rows.shape).astype(np.float32) / 64
    if meet_every:
        rows[meet_every - 1 :: meet_every] = [-30.0, -30.0, -0.125]
    return rows
