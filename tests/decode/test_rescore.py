import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import _stages

cost = st.one_of(st.integers(-64, 640).map(lambda n: n / 64), st.just(math.inf))


def rescore(costs, added, beam):
    candidates, deviations = np.zeros(len(costs), _stages.CANDIDATE), np.zeros(len(costs), _stages.DEVIATION)
    candidates["cost"], deviations["cost"] = costs, added
    candidates["arc"] = np.arange(len(costs))
    return _stages.rescore(candidates, deviations, beam)


def test_by_hand():
    got, bound, alive = rescore([1.0, 2.0, 3.0], [4.0, 0.0, -2.5], 3.0)
    assert got["cost"].tolist() == [5.0, 2.0, 0.5]
    assert (bound, alive) == (3.5, True)
    assert got["arc"].tolist() == [0, 1, 2]


def test_nothing_finite_is_dead():
    for costs, added in ([], []), ([math.inf], [1.0]), ([1.0], [math.inf]), ([1.0], [math.nan]), ([1.0], [-math.inf]):
        _, bound, alive = rescore(costs, added, 3.0)
        assert (bound, alive) == (math.inf, False)


@given(st.lists(st.tuples(cost, cost), max_size=50), st.sampled_from([0.0, 2.0, math.inf]))
def test_the_bound_is_the_best_finite_cost_and_the_beam(rows, beam):
    costs, added = [r[0] for r in rows], [r[1] for r in rows]
    got, bound, alive = rescore(costs, added, beam)
    sums = (np.array(costs, np.float32) + np.array(added, np.float32)).astype(np.float32)
    assert got["cost"].tobytes() == sums.tobytes()
    finite = sums[np.isfinite(sums)]
    assert alive == (len(finite) > 0)
    assert bound == (finite.min() + np.float32(beam) if len(finite) else math.inf)
