"""A round of streams that breaks off behind the search: each stream has its chunk, is as before, or says what is wrong.

Answers may find no memory, a warning may be made an error, and Ctrl-C may come at any place of Python's code.
"""

import random
import signal
import warnings

import numpy as np
import pytest

from arcbeam import Batcher, Boost, CtcDecoder, Endpoint, EndpointRule
from tests.decode.equality import same
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS
from tests.decode.test_streams_emulated import answers

ONE_THREAD = OPTIONS | {"threads": 1}
SPEECH = np.concatenate([BATCH[5]] * 12)
ANSWERS = {"nbest": 4, "confidence": True, "mbr": True}


def rule(seconds):
    """Ends a sentence after so many seconds."""
    return Endpoint(
        {"cut": EndpointRule(min_trailing_silence=0.0, must_contain_nonsilence=False, min_utterance_length=seconds)}
    )


def failing(decoder, monkeypatch, error, when=lambda lattices: True, times=1):
    """Has the decoder's next answers fail."""
    made, left = decoder._answers, [times]

    def answer(lattices, *arguments, **options):
        if left[0] and when(lattices):
            left[0] -= 1
            raise error
        return made(lattices, *arguments, **options)

    monkeypatch.setattr(decoder, "_answers", answer)


def sentences(stream, partial):
    """The results of all sentences that end in what waits."""
    found = []
    while partial.endpoint is not None:
        found.append(partial)
        partial = stream.reset()
    return found


def fed(decoder, log_probs, **options):
    """The results of all sentences of a stream that nothing interrupts."""
    stream = decoder.stream(**options)
    found = sentences(stream, stream.decode_chunk(log_probs))
    return [*found, stream.finish()]


@pytest.mark.parametrize("error", [MemoryError("no room"), KeyboardInterrupt()])
def test_a_chunk_whose_answers_fail_has_been_taken(monkeypatch, error):
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    stream = decoder.stream(**ANSWERS, interim_answers=True, endpoint=rule(0.6))
    stream.decode_chunk(SPEECH[:5])
    failing(decoder, monkeypatch, error, times=2)
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            stream.decode_chunk(SPEECH[5:25])
        told = pytest.raises(RuntimeError, match="did not come to its answers")
    else:
        stream.decode_chunk(SPEECH[5:25])
        told = pytest.raises(MemoryError, match="no room")
    assert stream.num_frames == 25
    partial = stream.partial
    with told:
        _ = partial.nbest
    with told:
        _ = partial.confidence
    with told:
        _ = partial.mbr
    assert partial.text == decoder.stream().decode_chunk(SPEECH[:25]).text
    monkeypatch.undo()
    again = stream.decode_chunk(SPEECH[:0])
    assert again.nbest[0].text == partial.text
    found = [*sentences(stream, stream.decode_chunk(SPEECH[25:100])), stream.finish()]
    wholes = fed(decoder, SPEECH[:100], **ANSWERS, endpoint=rule(0.6))
    same(found, wholes)
    assert list(map(answers, found)) == list(map(answers, wholes))


def test_a_plain_stream_is_not_harmed_by_the_answers_of_others(monkeypatch):
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    asking, plain = decoder.stream(**ANSWERS), decoder.stream(endpoint=rule(0.6))
    failing(decoder, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        decoder.decode_chunks([asking, plain], [SPEECH[:40], SPEECH[:40]], last=[True, False])
    assert (asking.is_finished, asking.num_frames, plain.num_frames, plain.num_waiting) == (True, 40, 30, 10)
    [whole] = decoder.decode([SPEECH[:40]], **ANSWERS)
    assert answers(decoder.restore(asking.save()).partial) == answers(whole)
    found = [*sentences(plain, plain.decode_chunk(SPEECH[40:100])), plain.finish()]
    same(found, fed(decoder, SPEECH[:100], endpoint=rule(0.6)))


def test_answers_that_fit_alone_are_made_alone(monkeypatch):
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    failing(decoder, monkeypatch, MemoryError("all"), lambda lattices: len(lattices.places()) > 1)
    with Batcher(decoder, max_wait_ms=500, max_batch=3) as batcher:
        streams = [decoder.stream(**ANSWERS), decoder.stream(**ANSWERS), decoder.stream()]
        found = [batcher.submit(stream, SPEECH[:30], last=True) for stream in streams]
        found = [future.result() for future in found]
        assert batcher.stats().failed == 0
    [whole] = decoder.decode([SPEECH[:30]], **ANSWERS)
    assert [answers(one) for one in found[:2]] == [answers(whole)] * 2
    assert found[2].nbest is None and found[2].text == whole.text


def test_a_warning_that_is_an_error_comes_behind_the_chunk():
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    odd = np.exp(SPEECH)
    stream = decoder.stream(endpoint=rule(0.6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="are they probabilities"):
            stream.decode_chunk(odd[:50])
    assert (stream.num_frames, stream.num_waiting) == (30, 20)


def test_a_finished_stream_keeps_its_own_lattice_alone():
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    streams = [decoder.stream(nbest=1, interim_answers=True) for _ in range(3)]
    decoder.decode_chunks(streams, [SPEECH[:30]] * 3, last=[True, False, False])
    assert [None if one._lattice is None else len(one._lattice) for one in streams] == [1, None, None]


def test_reset_that_is_refused_leaves_the_sentence_that_has_ended():
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    stream = decoder.stream(nbest=2)
    stream.decode_chunk(SPEECH[:40])
    whole = stream.finish()
    data = stream.save()
    too_much = Boost({" ".join(["w1"] * count): 1000.0 for count in range(1, 60)})
    with pytest.raises(ValueError, match="boost"):
        stream.reset(boost=too_much)
    assert stream.save() == data and answers(decoder.restore(data).partial) == answers(whole)


def test_reset_that_breaks_off_keeps_what_waits(monkeypatch):
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    options = ANSWERS | {"endpoint": rule(0.6)}
    stream = decoder.stream(**options, interim_answers=True)
    stream.decode_chunk(SPEECH[:200], last=True)
    failing(decoder, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        stream.reset()
    assert stream.num_frames + stream.num_waiting == 200 and not stream.is_finished
    found = [decoder.restore(stream.save()).partial]  # the answers of stream.partial were not made
    while not stream.is_finished:
        found.append(stream.reset())
    plain = decoder.stream(**options)
    wholes = [plain.decode_chunk(SPEECH[:200], last=True)]
    while not plain.is_finished:
        wholes.append(plain.reset())
    same(found, wholes[1:])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.parametrize("options", [{}, ANSWERS | {"interim_answers": True}])
def test_ctrl_c_at_any_time(monkeypatch, options):
    """Frames are decoded, wait, or are those of a chunk that was not taken; else the stream cannot go on."""
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    chances, listens = random.Random(0), []

    def interrupt(*_):
        if listens:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    seen = set()
    try:
        for _ in range(150):
            stream, taken = decoder.stream(endpoint=rule(7.0), **options), 0
            for begin in range(0, 700, 100):
                if begin == 200:
                    signal.setitimer(signal.ITIMER_REAL, chances.uniform(0.0002, 0.003 if not options else 0.03))
                try:
                    listens.append(True)
                    stream.decode_chunk(SPEECH[begin : begin + 100])
                    listens.clear()
                    taken += 100
                except KeyboardInterrupt:
                    listens.clear()
                    if stream._fault() is not None:
                        seen.add("cannot go on")
                        break
                    was_taken = stream.num_frames + stream.num_waiting != taken
                    seen.add("taken" if was_taken else "as before")
                    taken += 100 * was_taken
                assert stream.num_frames + stream.num_waiting == taken
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen
