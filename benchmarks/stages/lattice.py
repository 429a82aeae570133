"""Stage lattice: the links of a frame captured and pruned, and the lattice of this one frame numbered."""

from typing import Any

import numpy as np

from arcbeam import _stages
from benchmarks.engine.stage_timing import Case, Frame

BEAM = 8.0


def case(frame: Frame) -> Case:
    tokens = np.zeros(len(frame.tokens), _stages.CANDIDATE)  # the frame before, as if the start led to all its tokens
    tokens["cost"], tokens["state"] = frame.tokens["cost"], frame.tokens["state"]
    tokens["arc"] = frame.log.entries()["arc"][-len(tokens) :]
    start = np.array([(0.0, _stages.NO_ARC, frame.graph.start, _stages.NO_SOURCE)], _stages.CANDIDATE)
    moved = frame.candidates.copy()
    moved["source"] -= frame.first_log - 1
    candidates, slots, frontier = _stages.reach(frame.graph, moved, frame.bound, 1 + len(tokens))
    slots_before = np.arange(len(tokens), dtype=np.uint32)

    def call() -> dict[str, Any]:
        links = _stages.LinkLog(BEAM)
        links.commit(start, slots_before[:1], start)
        links.commit(tokens, slots_before, tokens)
        links.commit(candidates, slots, frontier)
        return links.finish(frame.graph)

    return call, len(candidates), "candidates"


def check(frame: Frame, result: dict[str, Any]) -> None:
    """Slacks and extras from dictionaries; states from the last in epsilon depth to the first."""
    states, targets = frame.graph.states, frame.graph.targets
    costs = dict(zip(frame.frontier["state"].tolist(), frame.frontier["cost"], strict=True))
    reached: dict[int, list[tuple[int, np.float32, int | None]]] = {state: [] for state in costs}
    for cost, arc, state, _ in frame.candidates[frame.candidates["cost"] <= frame.bound]:
        reached[int(state)].append((int(arc), cost, None))
    for state, cost in costs.items():
        for arc in range(int(states["first_arc"][state]), int(states["first_emitting"][state])):
            if cost + targets["weight"][arc] <= frame.bound:
                reached[int(targets["next_state"][arc])].append((arc, cost + targets["weight"][arc], state))
    least = min(costs.values())
    ends = {state: (cost - least) + frame.graph.finals[state] for state, cost in costs.items()}
    if not np.isfinite(min(ends.values())):
        ends = {state: cost - least for state, cost in costs.items()}
    extras = {state: cost - min(ends.values()) for state, cost in ends.items()}
    links = {}
    for state in sorted(costs, key=lambda state: states["depth"][state], reverse=True):
        for arc, cost, source in reached[state]:
            slack = cost - costs[state]
            if slack + extras[state] <= BEAM:
                links[arc] = float(slack)
            if source is not None:
                extras[source] = min(extras[source], slack + extras[state])
    found = result["links"][result["links"]["target"] >= result["first_token"][2]]
    assert dict(zip(found["arc"].tolist(), found["slack"].tolist(), strict=True)) == links
    assert len(found) == len(links)
