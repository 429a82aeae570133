"""A lattice made of arcs: its graph has an arc for each of its links, and its tokens are the states of that graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.lattice._lattices import LINK, Lattices, best_to_ends, best_to_states
from arcbeam.graph.graph import Graph

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Arcs:
    """Arcs, each to a state with a larger number; parallel ones are of two paths."""

    sources: Ints  # int64[arcs]
    targets: Ints  # int64[arcs]
    labels: Ints  # int64[arcs]: the column that is read, plus 1; 0 for none
    words: Ints  # int64[arcs]: 0 for none
    costs: Floats  # float64[arcs]
    graph_costs: npt.NDArray[np.float32]  # float32[arcs]: of these the graph's


def lattice_of_arcs(
    arcs: Arcs, steps: Ints, end_costs: Floats, *, start: int = 0, graph_end_costs: Floats | None = None, **fields: Any
) -> tuple[Graph, Lattices]:
    """The graph of these arcs, and its only lattice, which has all paths from `start` to an end.

    Parameters
    ----------
    arcs : Arcs
    steps : int64[states]
        Frames before each state; an arc that reads a column goes to the next step, and any other stays in its own.
    end_costs : float64[states]
        The cost of ending; +inf where no path ends, as in all steps but the last.
    graph_end_costs : float64[states], optional
        Of these the graph's; by default nothing.
    **fields
        Of :meth:`Graph.from_arcs`.
    """
    order = np.lexsort((arcs.labels, arcs.sources))  # as the graph has them
    sources, targets, costs = arcs.sources[order], arcs.targets[order], arcs.costs[order]
    rest_of_arcs: list[npt.NDArray[Any]] = [arcs.labels[order], arcs.words[order], arcs.graph_costs[order]]
    of_graph = np.zeros(len(steps)) if graph_end_costs is None else graph_end_costs
    graph = Graph.from_arcs(
        [sources, targets, *rest_of_arcs],
        start=start,
        finals=np.where(np.isfinite(end_costs), of_graph, np.inf).astype(np.float32) if len(steps) else [np.inf],
        num_states=max(len(steps), 1),
        **fields,
    )
    best = best_to_states(start, sources, targets, costs, len(steps))
    rest = best_to_ends(end_costs, sources, targets, costs)
    states = np.flatnonzero(np.isfinite(best) & np.isfinite(rest))
    if not len(states):
        return graph, Lattices.of_arrays([NOTHING])
    states = states[np.lexsort((states, graph.states["depth"][states], steps[states]))]
    numbers = np.full(len(steps), -1)
    numbers[states] = np.arange(len(states))
    kept = np.flatnonzero((numbers[sources] >= 0) & (numbers[targets] >= 0))
    kept = kept[np.lexsort((kept, numbers[sources[kept]]))]
    links = np.empty(len(kept), LINK)
    links["source"], links["target"], links["arc"] = numbers[sources[kept]], numbers[targets[kept]], kept
    links["slack"] = (best[sources[kept]] + costs[kept]) - best[targets[kept]]
    last = int(steps[states[-1]])
    first_token = np.searchsorted(steps[states], np.arange(last + 2))
    ends = (best + end_costs)[states[first_token[-2] :]]
    total = float(ends.min())
    found = {
        "first_token": first_token,
        "states": states,
        "costs": best[states],
        "links": links,
        "first_link": np.searchsorted(links["source"], np.arange(len(states) + 1)),
        "end_extras": ends - total,
        "best": best_path(links, int(first_token[-2]) + int(np.argmin(ends))),
        "total_cost": total,
        "reached_final": True,
        "complete": True,
    }
    return graph, Lattices.of_arrays([found])


NOTHING: dict[str, Any] = {
    "first_token": [], "states": [], "costs": [], "links": np.empty(0, LINK), "first_link": [], "end_extras": [],
    "best": [], "total_cost": np.inf, "reached_final": True, "complete": True,
}  # fmt: skip


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
