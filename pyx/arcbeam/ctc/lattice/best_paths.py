"""The best paths of a lattice whose costs have just been made, in which arcs lead to larger states."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def best_to_states(
    start: int, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], costs: Floats, num_states: int
) -> Floats:
    """The cost of the best path to each state, which comes after those that lead to it."""
    best = [np.inf] * num_states
    if num_states:
        best[start] = 0.0
    for source, target, cost in zip(sources.tolist(), targets.tolist(), costs.tolist(), strict=True):
        best[target] = min(best[target], best[source] + cost)
    return np.array(best)


def best_path(links: npt.NDArray[Any], token: int) -> list[int]:
    """The links of the best path to a token, of equals those of the first arcs."""
    winners = np.flatnonzero(links["slack"] == 0)
    winners = winners[np.lexsort((-links["arc"][winners].astype(np.int64),))]
    winner_of = dict(zip(links["target"][winners].tolist(), winners.tolist(), strict=True))
    path = []
    while token:
        path.append(winner_of[token])
        token = int(links["source"][path[-1]])
    return path[::-1]
