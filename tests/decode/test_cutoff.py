import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import _stages


def tokens(costs, states=None):
    array = np.zeros(len(costs), dtype=_stages.TOKEN)
    array["state"] = np.arange(len(costs)) if states is None else states
    array["cost"] = costs
    return array


@pytest.mark.parametrize(
    ("costs", "beam", "max_active", "expected"),
    [
        ([0.0, 1.0, 2.0], 5.0, 0, 5.0),
        ([0.0, 1.0, 2.0], 5.0, 3, 5.0),
        ([2.0, 0.0, 1.0], 5.0, 2, 1.0),
        ([2.0, 0.0, 1.0], 0.5, 2, 0.5),
        ([1.0, 0.0, 1.0, 1.0], 5.0, 2, 1.0),
        ([0.0], math.inf, 1, math.inf),
    ],
)
def test_by_hand(costs, beam, max_active, expected):
    assert _stages.cutoff(tokens(costs), beam, max_active)[0] == expected


@pytest.mark.parametrize("max_active", [1, 2, 3, 4, 5, 6])
def test_of_tokens_that_tie_those_of_the_first_states_leave(max_active):
    some = tokens([1.0, 1.0, 1.0, 1.0, 0.0], states=[7, 3, 5, 4, 9])
    by_cost_and_state = [4, 1, 3, 2, 0]
    leave = np.flatnonzero(_stages.cutoff(some, 5.0, max_active)[1])
    assert leave.tolist() == sorted(by_cost_and_state[:max_active])


def test_of_tokens_of_one_state_those_of_the_first_histories_leave():
    some = tokens([0.0, 0.0, 0.0, 0.0], states=[2, 2, 1, 2])
    histories = np.array([(5, 0), (4, 9), (8, 8), (4, 3)], dtype=_stages.HISTORY)
    for max_active, leave in ((1, [2]), (2, [2, 3]), (3, [1, 2, 3])):
        assert np.flatnonzero(_stages.cutoff(some, 5.0, max_active, histories)[1]).tolist() == leave


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=50, unique=True),
    st.floats(0, 20, width=32),
    st.integers(0, 60),
    st.randoms(),
)
def test_the_first_of_the_tokens_within_the_beam_leave(keys, beam, max_active, random):
    """Whatever the order in which tokens are given."""
    random.shuffle(keys)
    some = tokens([key[0] / 4 for key in keys], states=[key[1] for key in keys])
    histories = np.array([(key[2], 0) for key in keys], dtype=_stages.HISTORY)
    bound = np.float32(some["cost"].min() + np.float32(beam))
    within = sorted(key for key in keys if np.float32(key[0] / 4) <= bound)
    cost, leave = _stages.cutoff(some, beam, max_active, histories)
    assert [key for key, leaves in zip(keys, leave, strict=True) if leaves] == [
        key for key in keys if key in within[: max_active or None]
    ]
    costs = sorted(some["cost"])
    assert cost == (min(bound, costs[max_active - 1]) if 0 < max_active < len(costs) else bound)
