"""Chunks of more frames than a round takes: cut over rounds, with the bytes of the whole, and others between."""

import random
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import Batcher, BatcherClosedError, CtcDecoder, InputError
from tests.batching.clients import batcher_of, ctc, transducer
from tests.batching.stand_ins import PATIENCE_S, Decoder, held, text
from tests.decode import graphs
from tests.decode.equality import same
from tests.decode.test_interrupted_rounds import ANSWERS, answers
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS

SPEECH = {"ctc": ctc, "transducer": transducer}
BROKEN = "cannot go on, because a chunk before it was lost"

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.fixture(scope="module", params=SPEECH)
def speech(request):
    return SPEECH[request.param]()


@pytest.fixture
def decoder():
    return Decoder(gated=True)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), max_frames=st.integers(1, 100), max_batch=st.integers(1, 4))
def test_whole_utterances_that_are_cut(speech, seed, max_frames, max_batch):
    rng, kinds = random.Random(seed), (np.float32, np.float16)
    with batcher_of(speech, max_batch=max_batch, max_wait_ms=0, max_frames=max_frames) as batcher:
        found = []
        for _ in range(rng.randrange(1, 7)):
            utterance, boost = rng.randrange(len(speech.utterances)), rng.randrange(len(speech.boosts))
            stream, whole = speech.decoder.stream(boost=speech.boosts[boost]), speech.utterances[utterance]
            at = rng.randrange(1 + len(whole))
            parts = [np.asfortranarray(part) for part in np.split(whole, [at])]
            batcher.submit(speech.decoder.stream(), parts[0].astype(rng.choice(kinds)))
            futures = [batcher.submit(stream, part, last=last) for part, last in zip(parts, (False, True), strict=True)]
            found.append((futures[1], utterance, boost))
        for future, utterance, boost in found:
            speech.check(future.result(PATIENCE_S), utterance, boost)
    assert batcher.stats().refused == batcher.stats().failed == 0


def test_others_have_their_turn_between_the_pieces(decoder):
    batcher, _ = held(decoder, max_frames=2, max_batch=2)
    greedy, live, other = (decoder.stream(name) for name in "abc")
    futures = [batcher.submit(greedy, range(5), last=True), batcher.submit(live, 0), batcher.submit(live, 1)]
    futures += [batcher.submit(other, 0), batcher.submit(greedy, 7)]
    decoder.open()
    assert [text(future) for future in futures[:-1]] == ["a 4", "b 0", "b 1", "c 0"]
    with pytest.raises(ValueError, match="after the last"):
        futures[-1].result(PATIENCE_S)
    assert decoder.rounds[1:] == [["a 0 1", "b 0"], ["c 0", "a 2 3"], ["b 1", "a 4"], ["a 7"]]
    batcher.close()
    stats = batcher.stats()
    assert (stats.decoded, stats.refused, stats.frames, stats.rounds) == (5, 1, 9, 5)
    assert (stats.queue_seconds.count, stats.batch_sizes.total) == (6, 8)


def test_the_load(decoder):
    batcher, _ = held(decoder, max_frames=3)
    assert batcher.stats().round_seconds > 0 and batcher.stats().busy_share > 0
    streams = [decoder.stream(name) for name in "ab"]
    batcher.submit(streams[0], range(7))
    batcher.submit(streams[0], 0)
    batcher.submit(streams[1], range(3))
    stats = batcher.stats()
    assert (stats.waiting, stats.waiting_frames, stats.waiting_streams) == (3, 11, 2)
    decoder.next_round()
    before, stats = stats.oldest_wait_seconds, batcher.stats()
    assert (stats.waiting, stats.waiting_frames, stats.waiting_streams) == (2, 5, 1)
    assert stats.oldest_wait_seconds > before > 0
    decoder.open()
    batcher.close()
    stats = batcher.stats()
    assert (stats.waiting, stats.waiting_frames, stats.waiting_streams, stats.oldest_wait_seconds) == (0, 0, 0, 0.0)
    assert stats.round_seconds == 0.0 < stats.busy_share <= 1.0


def test_a_cut_chunk_that_is_cancelled_stops_after_its_round(decoder):
    batcher, _ = held(decoder, max_frames=2)
    stream = decoder.stream("a")
    long, later = batcher.submit(stream, range(5)), batcher.submit(stream, 9)
    decoder.next_round()
    assert long.cancel() and long.cancelled()
    decoder.open()
    with pytest.raises(ValueError, match="a chunk before it was cancelled, and was not decoded to its end"):
        later.result(PATIENCE_S)
    with pytest.raises(ValueError, match="cannot go on, because a chunk before it was cancelled"):
        batcher.submit(stream, 9)
    batcher.close()
    assert decoder.rounds == [["first 0"], ["a 0 1"]] and stream.num_frames == 1
    stats = batcher.stats()
    assert (stats.decoded, stats.cancelled, stats.waiting) == (1, 2, 0)


def test_in_its_last_round_a_cut_chunk_is_not_cancelled(decoder):
    batcher, _ = held(decoder, max_frames=2)
    long = batcher.submit(decoder.stream("a"), range(3))
    for _ in range(2):
        assert not long.running()
        decoder.next_round()
    assert long.running() and not long.cancel()
    decoder.open()
    assert text(long) == "a 2"
    batcher.close()


def test_what_is_left_of_a_cut_chunk_is_given_up(decoder):
    batcher, _ = held(decoder, max_frames=2)
    long = batcher.submit(decoder.stream("a"), range(5))
    decoder.next_round()
    long.add_done_callback(lambda _: decoder.open())
    batcher.close(drain=False)
    with pytest.raises(BatcherClosedError, match="closed before this chunk was decoded"):
        long.result(0)
    assert decoder.rounds == [["first 0"], ["a 0 1"]]
    assert (batcher.stats().failed, batcher.stats().decoded, batcher.stats().waiting) == (1, 1, 0)


def test_an_error_in_the_first_piece_refuses_the_chunk(decoder):
    batcher, _ = held(decoder, max_frames=2)
    stream = decoder.stream("a")
    long, later = batcher.submit(stream, range(-5, 0), last=True), batcher.submit(stream, 9)
    assert (batcher.stats().waiting, batcher.stats().waiting_frames) == (2, 6)
    decoder.open()
    with pytest.raises(ValueError, match="expected something, got -5 in frame 0"):
        long.result(PATIENCE_S)
    assert text(later) == "a 9"
    batcher.close()
    assert decoder.rounds[1:] == [["a -5 -4"], ["a 9"]]
    assert (batcher.stats().refused, batcher.stats().failed, batcher.stats().waiting) == (1, 0, 0)


def test_an_error_behind_the_first_piece(decoder):
    batcher, _ = held(decoder, max_frames=2)
    stream = decoder.stream("a")
    long, later = batcher.submit(stream, range(5, -5, -1)), batcher.submit(stream, 9)
    decoder.open()
    with pytest.raises(ValueError, match="expected something, got -2 in frame 0"):
        long.result(PATIENCE_S)
    with pytest.raises(ValueError, match=BROKEN):
        later.result(PATIENCE_S)
    batcher.close()
    assert decoder.rounds[1:] == [["a 5 4"], ["a 3 2"], ["a 1 0"], ["a -1 -2"]]
    assert (batcher.stats().failed, batcher.stats().refused, batcher.stats().waiting) == (2, 0, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_long_chunk_is_refused_whole(speech, monkeypatch, value):
    """And none of its frames is decoded, so that it holds nobody up either."""
    whole, decode = speech.utterances[0], speech.decoder.decode_chunks

    def watched(streams, chunks, **options):
        assert max(map(len, chunks)) <= 4 and all(np.isfinite(chunk).all() for chunk in chunks)
        return decode(streams, chunks, **options)

    monkeypatch.setattr(speech.decoder, "decode_chunks", watched)
    bad = whole.copy()
    bad[len(bad) - 2, 1] = value
    with batcher_of(speech, max_frames=4) as batcher:
        stream = speech.decoder.stream()
        batcher.submit(stream, whole[:5])
        with pytest.raises(InputError, match=f"got {value} in frame {len(bad) - 2}, ") as caught:
            batcher.submit(stream, bad).result(PATIENCE_S)
        assert (caught.value.utterance, caught.value.frame) == (None, len(bad) - 2)
        assert stream.num_frames == 5
        speech.check(batcher.submit(stream, whole[5:], last=True).result(PATIENCE_S), 0, 0)


@pytest.mark.filterwarnings("ignore:log_probs. :UserWarning")
def test_minus_infinity_is_no_fault_of_a_log_prob():
    logp = np.concatenate(BATCH)
    logp[20:90:3, 4:] = -np.inf
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    with Batcher(decoder, max_frames=7) as batcher:
        same([batcher.submit(decoder.stream(), logp, last=True).result(PATIENCE_S)], decoder.decode([logp]))
    assert batcher.stats().rounds >= len(logp) // 7


def test_answers_of_a_cut_chunk():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    with Batcher(decoder, max_frames=5, max_wait_ms=0) as batcher:
        options = [ANSWERS, ANSWERS | {"interim_answers": True}]
        futures = [batcher.submit(decoder.stream(**one), BATCH[0], last=True) for one in options]
        found = [future.result(PATIENCE_S) for future in futures]
    assert [answers(one) for one in found] == [answers(decoder.decode(BATCH[:1], **ANSWERS)[0])] * 2


def slow_search():
    """A decoder that needs a fifth of a millisecond a frame, and speech of minutes for it."""
    graph = graphs.random_graph(7, states=3000, columns=5)
    decoder = CtcDecoder(graph, beam=1e6, max_active=None, device="cpu", threads=1)
    return decoder, np.tile(graphs.random_log_probs(1, 1000, 5), (600, 1))


@pytest.mark.parametrize("options", [{"timeout": 0.0}, {"drain": False, "timeout": 0.1}])
def test_a_round_is_ended_when_the_time_is_over(options):
    decoder, speech = slow_search()
    batcher = Batcher(decoder, max_wait_ms=0, max_frames=len(speech))
    stream = decoder.stream()
    running, waits = batcher.submit(stream, speech), batcher.submit(stream, speech[:1])
    while batcher.stats().round_seconds == 0:
        time.sleep(0.001)
    batcher.close(**options)
    assert not batcher._thread.is_alive()
    with pytest.raises(BatcherClosedError, match="closed while this chunk was being decoded"):
        running.result(0)
    with pytest.raises(BatcherClosedError, match="closed before this chunk was decoded"):
        waits.result(0)
    assert (batcher.stats().failed, batcher.stats().decoded) == (2, 0)
    with pytest.raises(ValueError, match="interrupted in the middle of a chunk and cannot go on"):
        stream.decode_chunk(speech[:1])
    with Batcher(decoder) as other:  # of a thread that may have the number of the one that was ended
        assert other.submit(decoder.stream(), speech[:100], last=True).result(PATIENCE_S).num_frames == 100


def test_a_call_of_another_thread_goes_on_when_a_round_is_ended():
    decoder, speech = slow_search()
    other = CtcDecoder(decoder.graph, beam=1e6, max_active=None, device="cpu", threads=1)
    found, began = [], threading.Event()

    def decode():
        began.set()
        found.extend(other.decode([speech[:2000]]))

    thread = threading.Thread(target=decode)
    batcher = Batcher(decoder, max_wait_ms=0, max_frames=len(speech))
    running = batcher.submit(decoder.stream(), speech)
    thread.start()
    assert began.wait(PATIENCE_S)
    while batcher.stats().round_seconds == 0:
        time.sleep(0.001)
    batcher.close(timeout=0.0)
    assert isinstance(running.exception(0), BatcherClosedError)
    thread.join()
    assert found[0].complete


def test_a_function_of_a_future_that_does_not_return_is_not_waited_for(decoder):
    released = threading.Event()
    batcher, first = held(decoder)
    first.add_done_callback(lambda _: released.wait(PATIENCE_S))
    decoder.open()
    batcher.close(timeout=0.0)
    assert batcher._thread.is_alive() and first.done()
    released.set()
    batcher.close()
    assert not batcher._thread.is_alive()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_long_chunk_is_refused_in_the_words_of_the_engine(speech, value, kind):
    bad, told = speech.utterances[0].astype(kind), []
    bad[7:, 3:] = value
    for max_frames in (5, 500):
        with batcher_of(speech, max_frames=max_frames) as batcher:
            told.append(str(batcher.submit(speech.decoder.stream(), bad).exception(PATIENCE_S)))
    assert told[0] == told[1]
    is_fine = isinstance(speech.decoder, CtcDecoder) and value == -np.inf
    assert told[0] == "None" if is_fine else f"got {value} in frame 7, " in told[0]
