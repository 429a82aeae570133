"""A round of streams that breaks off after the search: each has its chunk, is as before, or says that it is broken.

Outputs may find no memory, a warning may be made an error, and Ctrl-C may come at any place of Python's code.
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
    """Has the next outputs of the decoder's lattices fail."""
    made, left = decoder._search.reader.answers, [times]

    def answer(lattices, *arguments, **options):
        if left[0] and when(lattices):
            left[0] -= 1
            raise error
        return made(lattices, *arguments, **options)

    monkeypatch.setattr(decoder._search.reader, "answers", answer)


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


def test_a_chunk_whose_outputs_find_no_memory_has_been_taken(monkeypatch):
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    stream = decoder.stream(**ANSWERS, interim_answers=True, endpoint=rule(0.6))
    stream.decode_chunk(SPEECH[:5])
    failing(decoder, monkeypatch, MemoryError("no room"), times=2)
    stream.decode_chunk(SPEECH[5:25])
    assert stream.num_frames == 25
    partial = stream.partial
    for name in ("nbest", "confidence", "mbr"):
        with pytest.raises(MemoryError, match="no room"):
            getattr(partial, name)
    assert partial.text == decoder.stream().decode_chunk(SPEECH[:25]).text
    monkeypatch.undo()
    again = stream.decode_chunk(SPEECH[:0])
    assert again.nbest[0].text == partial.text
    found = [*sentences(stream, stream.decode_chunk(SPEECH[25:100])), stream.finish()]
    wholes = fed(decoder, SPEECH[:100], **ANSWERS, endpoint=rule(0.6))
    same(found, wholes)
    assert list(map(answers, found)) == list(map(answers, wholes))


@pytest.mark.parametrize(("frames", "last"), [(20, False), (20, True), (0, True)])
def test_an_interrupt_after_the_search_breaks_the_stream(monkeypatch, frames, last):
    """With the sentence's lattice, its search is gone, also where the last chunk had no frames."""
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    stream = decoder.stream(**ANSWERS, interim_answers=True)
    before = stream.decode_chunk(SPEECH[:5])
    failing(decoder, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        stream.decode_chunk(SPEECH[5 : 5 + frames], last=last)
    for call in (stream.save, stream.finish, lambda: stream.decode_chunk(SPEECH[5:25])):
        with pytest.raises(ValueError, match=r"interrupted in the middle of a chunk .*; stream\.reset\(\) begins"):
            call()
    assert stream.partial is before and stream.num_frames == 5 and not stream.is_finished
    stream.reset()
    found = stream.decode_chunk(SPEECH[5:40], last=True)
    [whole] = decoder.decode([SPEECH[5:40]], **ANSWERS)
    assert (found.first_frame, found.num_frames, found.score) == (5, 40, whole.score)
    assert found.text == whole.text
    assert [(entry.text, entry.score) for entry in found.nbest] == [(entry.text, entry.score) for entry in whole.nbest]


def test_a_chunk_without_frames_that_is_interrupted_changes_nothing(monkeypatch):
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    stream = decoder.stream(**ANSWERS, interim_answers=True)
    stream.decode_chunk(SPEECH[:5])
    before = stream.save()
    failing(decoder, monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        stream.decode_chunk(SPEECH[:0])
    assert stream.save() == before
    [whole] = decoder.decode([SPEECH[:40]], **ANSWERS)
    assert answers(stream.decode_chunk(SPEECH[5:40], last=True)) == answers(whole)


def test_streams_that_have_taken_their_chunk_go_on(monkeypatch):
    """Those without outputs besides the best path do not depend on the outputs of others."""
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    richer, plain, refused = decoder.stream(**ANSWERS), decoder.stream(endpoint=rule(0.6)), decoder.stream(**ANSWERS)
    failing(decoder, monkeypatch, KeyboardInterrupt())
    chunks = [SPEECH[:40], SPEECH[:40], np.full_like(SPEECH[:40], np.nan)]
    with pytest.raises(KeyboardInterrupt):
        decoder.decode_chunks([richer, plain, refused], chunks, last=[True, False, True], errors="return")
    assert (plain.num_frames, plain.num_waiting) == (30, 10)
    found = [*sentences(plain, plain.decode_chunk(SPEECH[40:100])), plain.finish()]
    same(found, fed(decoder, SPEECH[:100], endpoint=rule(0.6)))
    [whole] = decoder.decode([SPEECH[:40]], **ANSWERS)
    assert answers(refused.decode_chunk(SPEECH[:40], last=True)) == answers(whole)
    with pytest.raises(ValueError, match="interrupted in the middle of a chunk"):
        richer.finish()


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


def test_a_warning_that_is_an_error_comes_after_the_chunk():
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


def test_reset_that_breaks_off_leaves_the_stream_as_before(monkeypatch):
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    options = ANSWERS | {"endpoint": rule(0.6), "interim_answers": True}
    stream, plain = decoder.stream(**options), decoder.stream(**options)
    for one in (stream, plain):
        one.decode_chunk(SPEECH[:200], last=True)
    found, wholes = [], []
    while not plain.is_finished:
        wholes.append(plain.reset())
    while not stream.is_finished:
        before, partial = stream.save(), stream.partial
        failing(decoder, monkeypatch, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            stream.reset()
        monkeypatch.undo()
        assert stream.save() == before and stream.partial is partial
        found.append(stream.reset())
    same(found, wholes)
    assert list(map(answers, found)) == list(map(answers, wholes))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.parametrize("options", [{}, ANSWERS | {"interim_answers": True}])
def test_ctrl_c_at_any_time(options):
    """Frames are decoded, wait, or are those of a chunk that was not taken; else the stream is broken and says so."""
    decoder = CtcDecoder(GRAPH, **ONE_THREAD)
    chances, listens = random.Random(0), []

    def interrupt(*_):
        if listens:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    seen = set()
    try:
        for _ in range(150):
            stream, taken = decoder.stream(endpoint=rule(3.5), **options), 0
            for begin in range(0, 350, 50):
                if begin == 100:
                    signal.setitimer(signal.ITIMER_REAL, chances.uniform(0.0002, 0.003 if not options else 0.03))
                try:
                    listens.append(True)
                    stream.decode_chunk(SPEECH[begin : begin + 50])
                    listens.clear()
                    taken += 50
                except KeyboardInterrupt:
                    listens.clear()
                    if stream._fault() is not None:
                        seen.add("broken")
                        with pytest.raises(ValueError, match="interrupted in the middle of a chunk"):
                            stream.decode_chunk(SPEECH[:1])
                        assert stream.num_frames + stream.num_waiting == taken
                        stream.reset()
                        [whole] = decoder.decode([SPEECH[:50]])
                        assert stream.decode_chunk(SPEECH[:50], last=True).score == whole.score
                        break
                    was_taken = stream.num_frames + stream.num_waiting != taken
                    seen.add("taken" if was_taken else "as before")
                    taken += 50 * was_taken
                assert stream.num_frames + stream.num_waiting == taken
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen
