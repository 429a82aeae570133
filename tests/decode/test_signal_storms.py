"""Ctrl-C at any moment, a thousand times: each call ends or is whole, and what comes after has the usual bytes."""

import random
import signal

import pytest

from arcbeam import CtcDecoder
from tests.decode import graphs
from tests.decode.equality import same
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS

INTERRUPTS = 1000

pytestmark = pytest.mark.long


@pytest.fixture
def storm():
    """Arms a timer that raises KeyboardInterrupt after a random time of up to three milliseconds; seeded."""
    rng = random.Random(0)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 3e-3))
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def interrupted(storm, call):
    """What the call returns, None if it was interrupted."""
    try:
        storm()
        found = call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return None
    return found


def test_decodes(storm):
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"threads": 2})
    batch = [*BATCH, graphs.random_log_probs(9, 300, BATCH[0].shape[1])]
    wanted = decoder.decode(batch)
    ended = 0
    for _ in range(INTERRUPTS):
        found = interrupted(storm, lambda: decoder.decode(batch))
        ended += found is None
        if found is not None:
            same(found, wanted)
    same(decoder.decode(batch), wanted)
    assert ended > INTERRUPTS // 10


def test_streams(storm):
    """A stream that was interrupted goes on from where it says it is, or says that it cannot."""
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"threads": 2})
    speech = graphs.random_log_probs(9, 300, BATCH[0].shape[1])
    [wanted] = decoder.decode([speech])
    ended, broken = 0, 0
    for _ in range(INTERRUPTS):
        stream = decoder.stream()
        ended += interrupted(storm, lambda stream=stream: stream.decode_chunk(speech[:200])) is None
        try:
            found = stream.decode_chunk(speech[stream.num_frames :], last=True)
        except ValueError as error:
            assert "it was interrupted in the middle of a chunk" in str(error)
            broken += 1
        else:
            same([found], [wanted])
    assert 0 < broken <= ended
