"""Ctrl-C at any moment, a thousand times: each call ends or is whole, and what comes after has the usual bytes."""

import random
import signal

import pytest

from arcbeam import CtcDecoder
from tests.decode import graphs
from tests.decode.equality import same
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS
from tests.transducer import test_transducer_sentences as of_transducers

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


@pytest.mark.parametrize("outputs", [{}, {"nbest": 4, "confidence": True, "interim_answers": True}])
def test_streams(storm, outputs):
    """A stream that was interrupted goes on from where it says it is, or says that it is broken until it is reset."""
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"threads": 2})
    speech = graphs.random_log_probs(9, 300, BATCH[0].shape[1])
    [wanted] = decoder.decode([speech], nbest=outputs.get("nbest"), confidence=bool(outputs))
    ended, broken = 0, 0
    for _ in range(INTERRUPTS):
        stream = decoder.stream(**outputs)
        ended += interrupted(storm, lambda stream=stream: stream.decode_chunk(speech[:200])) is None
        try:
            found = stream.decode_chunk(speech[stream.num_frames :], last=True)
        except ValueError as error:
            assert "it was interrupted in the middle of a chunk" in str(error) and stream.num_frames == 0
            stream.reset()
            found = stream.decode_chunk(speech, last=True)
            broken += 1
        same([found], [wanted])
        if outputs:
            assert [entry.score for entry in found.nbest] == [entry.score for entry in wanted.nbest]
    assert 0 < broken <= ended


def test_streams_of_transducers(storm):
    """Each call has its effect or none: chunks and sentences go on from where the stream says it is."""
    decoder = of_transducers.decoder()
    speech, ended = of_transducers.SPEECH, 0

    def finals(call):
        stream, found = decoder.stream(endpoint=of_transducers.RULES), {}
        while not stream.is_finished:
            at = stream.num_frames + stream.num_waiting
            if stream.partial.endpoint is not None:
                call(stream.reset)
            else:
                chunk, last = speech[at : at + 30], at + 30 >= len(speech)
                call(lambda stream=stream, chunk=chunk, last=last: stream.decode_chunk(chunk, last=last))
            if stream.partial.is_final:
                found[stream.partial.first_frame] = stream.partial.tokens.tobytes()
        return found

    def storming(call):
        nonlocal ended
        ended += interrupted(storm, call) is None

    wanted = finals(lambda call: call())
    for _ in range(INTERRUPTS // 10):
        assert finals(storming) == wanted
    assert ended > INTERRUPTS // 100
