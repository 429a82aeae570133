"""What comes out of a Batcher has the bytes of whole utterances, whoever else speaks, and however badly."""

import asyncio
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import Batcher, CtcDecoder, Graph, InputError
from tests.batching.clients import batcher_of, crowd, ctc, cut, transducer
from tests.batching.soak import soak
from tests.batching.stand_ins import PATIENCE_S
from tests.conftest import ROOT
from tests.decode import test_endpoints
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS
from tests.hypothesis_examples import examples

SPEECH = {"ctc": ctc, "transducer": transducer}

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.fixture(scope="module", params=SPEECH)
def speech(request):
    return SPEECH[request.param]()


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 2**32), max_batch=st.integers(1, 8))
def test_any_chunks_in_any_company(speech, seed, max_batch):
    """Chunks of some streams, submitted in random order by one thread; some streams are dropped half-way."""
    rng = random.Random(seed)
    with batcher_of(speech, max_batch=max_batch, max_wait_ms=rng.choice([0, 0.2])) as batcher:
        open_, done = [], []
        for _ in range(rng.randrange(1, 9)):
            utterance, boost = rng.randrange(len(speech.utterances)), rng.randrange(len(speech.boosts))
            chunks = [*cut(rng, speech.utterances[utterance]), None]
            open_.append((speech.decoder.stream(boost=speech.boosts[boost]), chunks, utterance, boost))
        while open_:
            stream, chunks, utterance, boost = one = rng.choice(open_)
            future = batcher.submit(stream, chunks.pop(0), last=not chunks)
            if not chunks:
                done.append((future, utterance, boost))
            if not chunks or rng.random() < 0.02:
                open_.remove(one)
        for future, utterance, boost in done:
            speech.check(future.result(PATIENCE_S), utterance, boost)


def test_a_crowd(speech):
    with batcher_of(speech) as batcher:
        happened = crowd(batcher, speech, clients=16, seed=1, seconds=1.0)
    stats = batcher.stats()
    assert stats.waiting == 0 and stats.decoded > 100
    assert stats.refused == happened["refused"] + happened["after the last"]
    assert stats.failed == happened["out of memory"] > 0 and stats.rejected == 0
    assert stats.cancelled >= happened["cancelled"] > 0


def test_too_little_memory_for_one_is_not_felt_by_others(speech):
    """Whatever is in the round with it: frames, none, the last chunk."""
    half = [np.array_split(utterance, 2) for utterance in speech.utterances]
    with batcher_of(speech, max_wait_ms=1000, max_batch=3 + len(half)) as batcher:
        streams = [speech.decoder.stream() for _ in half]
        others = [speech.decoder.stream() for _ in range(3)]
        others[0].too_large = True
        first = [batcher.submit(stream, chunks[0]) for stream, chunks in zip(streams, half, strict=True)]
        first += [batcher.submit(others[1], None), batcher.submit(others[2], None, last=True)]
        lost = batcher.submit(others[0], half[0][0])
        assert isinstance(lost.exception(PATIENCE_S), MemoryError)
        assert all(future.exception(PATIENCE_S) is None for future in first)
        assert first[-1].result().is_final and not first[-2].result().is_final
        last = [batcher.submit(stream, chunks[1], last=True) for stream, chunks in zip(streams, half, strict=True)]
        last_of_other = batcher.submit(others[1], speech.utterances[0], last=True)
        for utterance, future in enumerate(last):
            speech.check(future.result(PATIENCE_S), utterance, 0)
        speech.check(last_of_other.result(PATIENCE_S), 0, 0)
        stats = batcher.stats()
    assert (stats.failed, stats.refused) == (1, 0)


def test_asyncio(speech):
    async def speak(batcher, utterance):
        stream = speech.decoder.stream()
        for chunk in np.array_split(speech.utterances[utterance], 4):
            await batcher.decode_chunk(stream, chunk)
        return await batcher.submit(stream, None, last=True)

    async def everybody():
        with batcher_of(speech) as batcher:
            return await asyncio.gather(*(speak(batcher, i) for i in range(len(speech.utterances))))

    for utterance, found in enumerate(asyncio.run(everybody())):
        speech.check(found, utterance, 0)


def test_wrong_arrays_never_reach_a_round(speech):
    columns = speech.utterances[0].shape[1]
    with batcher_of(speech) as batcher:
        stream = speech.decoder.stream()
        for wrong, error in (
            (np.zeros((2, columns - 1), np.float32), ValueError),
            (np.zeros((2, columns), int), TypeError),
            (np.zeros(columns, np.float32), ValueError),
            ([[0.0] * columns], TypeError),
            ("speech", TypeError),
        ):
            with pytest.raises(error, match=r"^(log_probs|encoder_output): expected"):
                batcher.submit(stream, wrong)
        chunks = np.array_split(speech.utterances[0], 3)
        half = [chunk.astype(np.float16) for chunk in chunks]
        others = [batcher.submit(speech.decoder.stream(), chunk) for chunk in half]
        futures = [batcher.submit(stream, np.asfortranarray(chunk)) for chunk in chunks]
        speech.check(batcher.submit(stream, None, last=True).result(PATIENCE_S), 0, 0)
        assert all(future.result(PATIENCE_S).num_frames for future in (*others, *futures))


def test_chunks_that_wait_come_first(speech):
    """A call that would overtake them is refused; once nothing waits, the stream may be decoded anywhere."""
    decoder, whole = speech.decoder, speech.utterances[0]
    stream = decoder.stream()
    with batcher_of(speech, max_wait_ms=60_000, max_batch=2) as batcher, batcher_of(speech) as other:
        first = batcher.submit(stream, whole[:3])
        later = batcher.submit(stream, whole[3:5])
        for call in (lambda: stream.decode_chunk(whole[5:7]), stream.finish):
            with pytest.raises(ValueError, match="stream: expected one without chunks that wait in a Batcher"):
                call()
        with pytest.raises(ValueError, match="stream: expected one without chunks that wait in another Batcher"):
            other.submit(stream, whole[5:7])
        refused, fine = decoder.decode_chunks([stream, decoder.stream()], [whole, whole], errors="return")
        assert "stream 0: expected one without chunks" in str(refused.error) and fine.num_frames == len(whole)
        assert isinstance(refused.error, InputError) and refused.error.stream == 0
        assert stream.num_frames == 0 and stream.reset().num_frames == 0
        for future in (first, later):
            batcher.submit(decoder.stream(), whole[:1])  # the round is full
            future.result(PATIENCE_S)
        assert stream.decode_chunk(whole[5:7]).num_frames == 7
        speech.check(other.submit(stream, whole[7:], last=True).result(PATIENCE_S), 0, 0)


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_a_stream_whose_chunks_are_given_up_may_be_decoded(speech, how):
    stream, whole = speech.decoder.stream(), speech.utterances[0]
    batcher = batcher_of(speech, max_wait_ms=60_000, max_batch=2)
    future = batcher.submit(stream, whole[:3])
    if how == "cancelled":
        assert future.cancel()
        batcher.submit(speech.decoder.stream(), whole[:1]).result(PATIENCE_S)
    batcher.close(drain=False)
    speech.check(stream.decode_chunk(whole, last=True), 0, 0)


@pytest.mark.parametrize("max_frames", [6, 500])
def test_widths_may_differ(max_frames):
    """Where a graph does not say how many columns there are, each client may have its own number."""
    decoder = CtcDecoder(Graph(**GRAPH.fields() | {"width_is_exact": False}), **OPTIONS)
    wide = [np.pad(one, ((0, 0), (0, i))) for i, one in enumerate(BATCH)]
    with Batcher(decoder, max_wait_ms=5, max_frames=max_frames) as batcher:
        futures = [batcher.submit(decoder.stream(), one, last=True) for one in wide]
        assert [future.result(PATIENCE_S).score for future in futures] == [one.score for one in decoder.decode(BATCH)]


def test_sentences():
    """Clients whose streams stop at endpoints, each in a thread: what waits is decoded by `reset`, in its turn."""
    decoder = CtcDecoder(test_endpoints.SILENCE, **test_endpoints.OPTIONS)

    def results_of(decode, stream, seed):
        rng, at, finals = random.Random(seed), 0, []
        while not stream.is_finished:
            end = at + rng.randrange(1, 12)
            partial = decode(stream, test_endpoints.SPEECH[at:end], last=end >= len(test_endpoints.SPEECH))
            at = end
            while partial.endpoint:
                finals.append((partial.text, partial.score, partial.first_frame, partial.num_frames, partial.endpoint))
                partial = stream.reset()
        return [*finals, (partial.text, partial.score)]

    alone = results_of(
        lambda stream, *chunk, last: stream.decode_chunk(*chunk, last=last),
        decoder.stream(endpoint=test_endpoints.RULES),
        0,
    )
    assert len(alone) > 5
    with Batcher(decoder, max_wait_ms=0.5) as batcher, ThreadPoolExecutor(8) as pool:

        def client(seed):
            stream = decoder.stream(endpoint=test_endpoints.RULES)
            return results_of(lambda *chunk, last: batcher.submit(*chunk, last=last).result(PATIENCE_S), stream, seed)

        assert list(pool.map(client, range(8))) == [alone] * 8


def test_a_short_soak():
    found = soak(0.03, clients=8)
    assert set(found.happened) == set(found.work) == {"ctc", "transducer"} and found.sizes
    assert all(chunks >= rounds > 0 for rounds, chunks in found.work.values())


@pytest.mark.long
def test_a_soak_of_two_minutes():
    command = [sys.executable, "-W", "ignore", "-m", "tests.batching.soak", "--minutes", "2"]
    got = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert got.returncode == 0, got.stdout + got.stderr
