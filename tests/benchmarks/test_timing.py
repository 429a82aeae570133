"""What is timed pays for its own garbage."""

import gc

import pytest

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
