import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import _stages

candidate = st.tuples(
    st.one_of(st.integers(0, 8).map(lambda n: n / 4), st.just(math.inf)),
    st.integers(0, 30),
    st.integers(0, 12),
    st.integers(0, 1000),
)


def candidates(rows):
    return np.array(rows, dtype=_stages.CANDIDATE)


def test_by_hand():
    got = _stages.recombine(
        candidates([(2.0, 9, 4, 0), (1.0, 8, 4, 1), (1.0, 3, 4, 2), (3.0, 1, 5, 3), (5.0, 2, 6, 4)]), 3.0
    )
    assert sorted(got.tolist()) == [(1.0, 3, 4, 2), (3.0, 1, 5, 3)]


def test_infinite_costs_are_never_admitted():
    assert len(_stages.recombine(candidates([(math.inf, 0, 0, 0), (-math.inf, 1, 1, 0)]), math.inf)) == 0


@given(st.lists(candidate, max_size=200, unique_by=lambda c: c[1]), st.sampled_from([0.0, 1.0, math.inf]))
def test_one_winner_a_state(rows, bound):
    winners = {}
    for cost, arc, state, source in rows:
        if cost <= bound and math.isfinite(cost):
            winners[state] = min(winners.get(state, (math.inf, 0, 0, 0)), (cost, arc, state, source))
    assert sorted(_stages.recombine(candidates(rows), bound).tolist()) == sorted(winners.values())


def test_the_table_grows():
    """Many states: every probe and every rehash has to keep them apart."""
    rng = np.random.default_rng(5)
    many = np.zeros(300_000, dtype=_stages.CANDIDATE)
    many["state"] = rng.integers(0, 100_000, len(many))
    many["arc"] = np.arange(len(many))
    many["cost"] = rng.integers(0, 10, len(many))
    got = _stages.recombine(many, 100.0)
    order = np.lexsort((many["arc"], many["cost"], many["state"]))
    _, first = np.unique(many["state"][order], return_index=True)
    assert np.sort(got, order="state").tobytes() == many[order][first].tobytes()
