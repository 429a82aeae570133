import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam.ctc import _stages


def tokens(costs):
    array = np.zeros(len(costs), dtype=_stages.TOKEN)
    array["state"] = np.arange(len(costs))
    array["cost"] = costs
    return array


@pytest.mark.parametrize(
    ("costs", "beam", "max_active", "expected"),
    [
        ([0.0, 1.0, 2.0], 5.0, 0, 5.0),
        ([0.0, 1.0, 2.0], 5.0, 3, 5.0),
        ([2.0, 0.0, 1.0], 5.0, 2, 1.0),
        ([2.0, 0.0, 1.0], 0.5, 2, 0.5),
        ([1.0, 0.0, 1.0, 1.0], 5.0, 2, 1.0),  # ties at the last place all stay
        ([0.0], math.inf, 1, math.inf),
    ],
)
def test_by_hand(costs, beam, max_active, expected):
    assert _stages.cutoff(tokens(costs), beam, max_active) == expected


@given(
    st.lists(st.integers(0, 640).map(lambda n: n / 64), min_size=1, max_size=50),
    st.floats(0, 20, width=32),
    st.integers(0, 60),
)
def test_is_the_smaller_of_beam_and_rank(costs, beam, max_active):
    expected = np.float32(np.float32(min(costs)) + np.float32(beam))
    if 0 < max_active < len(costs):
        expected = min(expected, np.float32(sorted(costs)[max_active - 1]))
    assert _stages.cutoff(tokens(costs), beam, max_active) == expected
