"""What is timed pays for its own garbage."""

import gc

import pytest

from benchmarks.harness import timing
from benchmarks.harness.timing import own_garbage


@pytest.fixture
def nothing_frozen():
    """As in a process that is no session of tests; these freeze what is there once all tests are known."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


def test_objects_of_others_are_not_walked_over(nothing_frozen):
    with own_garbage():
        assert gc.get_freeze_count() > 1000
        with own_garbage():
            pass
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() == 0


def test_what_was_frozen_before_stays_so():
    before = gc.get_freeze_count()
    assert before > 1000
    with own_garbage():
        pass
    assert gc.get_freeze_count() >= before


def test_a_turn_does_not_collect_what_was_there_before(nothing_frozen):
    """Objects of before are out of the collector's sight during the turns, those of a turn are not; then all are."""
    before, seen = [{} for _ in range(3)], []

    def turn():
        made = [{} for _ in range(3)]
        tracked = {id(found) for found in gc.get_objects()}
        seen.append((id(before) in tracked, id(made) in tracked))

    timing.interleave({"one": turn}, 1)
    assert seen == [(False, True)] * 2
    assert gc.get_freeze_count() == 0
    with pytest.raises(ZeroDivisionError):
        timing.interleave({"bad": lambda: 1 / 0}, 1)
    assert gc.get_freeze_count() == 0
