import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import Graph, _stages
from tests.decode import graphs

f32 = np.float32


def frontier(rows):
    return np.array(rows, dtype=_stages.CANDIDATE)


def test_a_state_is_complete_before_its_arcs_are_followed():
    """0 reaches 3 directly and, cheaper, through 1 and 2; only the cheaper cost may flow on to 4."""
    graph = Graph.from_arcs(
        [(0, 3, 0, 0, 5.0), (0, 1, 0, 0, 1.0), (1, 2, 0, 0, 1.0), (2, 3, 0, 7, 1.0), (3, 4, 0, 0, 1.0)],
        start=0,
        finals={4: 0.0},
    )
    got = _stages.closure(graph, frontier([(0.0, 100, 0, 50)]), 10.0, 20)
    assert got.tolist() == [(0.0, 100, 0, 50), (3.0, 3, 3, 23), (1.0, 1, 1, 20), (2.0, 2, 2, 22), (4.0, 4, 4, 21)]


def test_the_bound_holds_and_ties_go_to_the_smaller_arc():
    graph = Graph.from_arcs([(0, 2, 0, 0, 1.0), (1, 2, 0, 0, 1.0), (2, 3, 0, 0, 1.5)], start=0, finals={3: 0.0})
    got = _stages.closure(graph, frontier([(0.0, 9, 1, 5), (0.0, 8, 0, 6)]), 2.0, 0)
    assert sorted(got.tolist()) == [(0.0, 8, 0, 6), (0.0, 9, 1, 5), (1.0, 0, 2, 1)]


@given(
    graphs.graphs(),
    st.dictionaries(st.integers(0, 8), st.integers(0, 192).map(lambda n: n / 64), max_size=5),
    st.sampled_from([0.5, 3.0, math.inf]),
)
def test_is_the_fixpoint(graph, seeds, bound):
    rows = [(cost, 1000 + state, state, 7) for state, cost in seeds.items() if state < graph.num_states]
    got = _stages.closure(graph, frontier(rows), bound, 100)
    seed = {state: (f32(cost), arc) for cost, arc, state, _ in rows if cost <= bound}
    winners = dict(seed)
    while True:
        after = dict(seed)
        for state, (cost, _) in winners.items():
            for arc in range(graph.states["first_arc"][state], graph.states["first_emitting"][state]):
                reached = f32(cost + graph.targets["weight"][arc])
                to = int(graph.targets["next_state"][arc])
                if np.isfinite(reached) and reached <= bound:
                    after[to] = min(after.get(to, (f32(np.inf), 0)), (reached, arc))
        if after == winners:
            break
        winners = after
    assert {int(c["state"]): (c["cost"], c["arc"]) for c in got} == winners
    for winner in got:  # a source is the slot of the state that the arc leaves
        if winner["arc"] < 1000:
            leaves = int(np.searchsorted(graph.states["first_arc"], winner["arc"], side="right")) - 1
            assert got[winner["source"] - 100]["state"] == leaves
