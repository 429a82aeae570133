"""Long utterances under the emulator: the log is collected all the time, and the bytes are the twin's."""

from dataclasses import replace

import pytest

from tests.decode import long_utterances
from tests.decode.both_engines import check
from tests.decode.emulated_gpu import Shape
from tests.decode.small_search import ROOMY
from tests.simt.build import schedules

OPTIONS = {"beam": 9.0, "max_active": 20}
ONE = Shape(lanes=1, block=32)
FAST = {"detect_races": False}


@pytest.fixture(scope="module")
def graph():
    return long_utterances.graph()


def room(log):
    return replace(ROOMY, log_entries=log)


@pytest.mark.parametrize("meet_every", [0, 7, 40])
def test_schedules(graph, meet_every):
    """A log so small that it is collected every few frames, and grows."""
    batch = [long_utterances.log_probs(frames, meet_every, frames) for frames in (24, 3, 60)]
    for schedule in schedules():
        assert check(graph, batch, room=room(32), shape=ONE, schedule=schedule, **OPTIONS).launches > 1
    check(graph, batch, room=room(1 << 12), shape=ONE, **OPTIONS)


@pytest.mark.parametrize(("meet_every", "log"), [(0, 64), (25, 64), (25, 1 << 13), (300, 1 << 12)])
def test_thousands_of_frames(graph, meet_every, log):
    """Histories that never meet, that meet often and seldom."""
    batch = [long_utterances.log_probs(2500, meet_every)]
    seen = check(graph, batch, room=room(log), shape=ONE, schedule=FAST, **OPTIONS)
    assert check(graph, batch, room=room(1 << 17), shape=ONE, schedule=FAST, **OPTIONS).launches == 1, "all has room"
    assert seen.stats.tokens > 14_000
    assert (seen.token_log <= 1 << 17) == (meet_every > 0), "where histories meet the log hardly grows"
    if log == 1 << 13:
        assert seen.launches == 1


def test_clusters(graph):
    shape = Shape("cluster", lanes=1, block=32, cluster=2, team_tokens=3)
    batch = [long_utterances.log_probs(frames, 11) for frames in (400, 50)]
    check(graph, batch, room=room(64), shape=shape, schedule=FAST, **OPTIONS)


def test_a_lane_that_goes_on_knows_what_is_settled(graph):
    """Stops in a block and goes on in a cluster; the first frames of the path are known to be common then."""
    shape = Shape(lanes=2, block=32, hot_tokens=1, hot_lanes=1)
    batch = [long_utterances.log_probs(frames, 9) for frames in (300, 200)]
    for schedule in schedules(5):
        assert check(graph, batch, room=room(1 << 9), shape=shape, schedule=schedule | FAST, **OPTIONS).launches > 1
