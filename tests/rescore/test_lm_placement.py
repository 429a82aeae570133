import pytest

from arcbeam import CapacityError
from arcbeam.gpu.tuned.lm_placement import ENTRY_BYTES, MOST_CACHE, SINGLE_BYTES, Placement, choose, choose_unpinned

GB = 10**9
MODEL, INDEX = 10 * GB, 2 * GB


def chosen(placement="auto", free=100 * GB, budget=None, cache=None):
    return choose(placement, MODEL, INDEX, free, budget, cache)


def test_what_fits_is_resident():
    assert chosen() == Placement("resident", 0)
    assert chosen(budget=MODEL) == Placement("resident", 0)
    assert chosen(cache=64) == Placement("resident", 2)
    assert chosen(budget=MODEL, cache=64).name == "host-direct"
    assert chosen(free=13 * GB).name == "host-direct"  # a quarter is left to the search
    assert chosen("resident", free=0) == Placement("resident", 0)  # as was said, and the device answers


def test_the_index_and_the_cache_share_the_budget():
    assert chosen("host-direct") == Placement("host-direct", MOST_CACHE // ENTRY_BYTES, True)
    assert chosen(budget=5 * GB) == Placement("host-direct", 3 * GB // ENTRY_BYTES, True)
    assert chosen(budget=3 * GB) == Placement("host-direct", 3 * GB // ENTRY_BYTES, False)
    assert chosen(budget=2 * GB) == Placement("host-direct", 2 * GB // ENTRY_BYTES, False)
    assert chosen("host-direct", budget=2 * GB, cache=0) == Placement("host-direct", 0, True)
    assert chosen("host-direct", budget=2 * GB, cache=GB) == Placement("host-direct", GB // ENTRY_BYTES, False)
    assert choose("host-direct", 1000, 100, GB, None, None) == Placement("host-direct", 1000 // ENTRY_BYTES, True)


@pytest.mark.parametrize(
    ("placement", "budget", "cache"), [("resident", GB, None), ("host-direct", GB, 2 * GB), ("host", GB, None)]
)
def test_a_budget_that_is_exceeded(placement, budget, cache):
    with pytest.raises(
        CapacityError, match=f"gpu_budget: .* as placement='{placement}', but 1,000,000,000 are allowed"
    ):
        chosen(placement, budget=budget, cache=cache)


def test_those_that_ask_the_host():
    """The index of `host` has to fit; a KenLM takes nothing of the device but its cache."""
    assert chosen("host") == Placement("host", MOST_CACHE // SINGLE_BYTES, True)
    assert chosen("host", budget=3 * GB) == Placement("host", GB // SINGLE_BYTES, True)
    assert chosen("host", budget=3 * GB).cache_bytes == GB == chosen("host-direct", budget=3 * GB).cache_bytes // 3
    assert chosen("host", budget=INDEX) == Placement("host", 0, True)
    assert chosen("host", free=GB) == Placement("host", 0, True)  # the device answers
    assert choose("cpu", MODEL, 0, 100 * GB, 64, None) == Placement("cpu", 2, True)
    assert choose("cpu", MODEL, 0, 100 * GB, 64, 0) == Placement("cpu", 0, True)


def test_where_the_host_pins_nothing():
    free = 100 * GB
    assert choose_unpinned(MODEL, INDEX, free, None, None) == Placement("resident", 0)
    assert choose_unpinned(MODEL, INDEX, free, MODEL, 64) == Placement("host", 4)
    assert choose_unpinned(MODEL, INDEX, free, 3 * GB, None) == Placement("host", GB // SINGLE_BYTES)
    assert choose_unpinned(MODEL, INDEX, 13 * GB, None, None) == Placement("host", MOST_CACHE // SINGLE_BYTES)
    assert choose_unpinned(MODEL, INDEX, free, INDEX - 1, None) is None
    assert choose_unpinned(MODEL, INDEX, free, INDEX, 1) is None
