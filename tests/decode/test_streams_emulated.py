"""Streams of the GPU's engine are the CPU engine's bytes: the kernels under the emulator, and the host around them."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Batcher, BatcherClosedError, CtcDecoder, CudaOutOfMemoryError, Endpoint, EndpointRule
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT, DeviceArray, Shape, scheduled
from tests.decode.equality import same
from tests.decode.lattices import packed
from tests.decode.small_search import AS_SHIPPED, ROOMY
from tests.decode.test_endpoints import LETTERS, RULES, SILENCE, SPEECH, spoken
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.hypothesis_examples import examples
from tests.simt.build import schedules

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
OF_STREAMS = ("interim_answers", "posteriors")  # what no decode of the whole is asked for
SMALL_STATES = {"STREAM_TOKENS": 1, "STREAM_ENTRIES": 1, "STREAM_LINKS": 1, "STREAM_PRUNE_ABOVE": 0}  # which grow
LITTLE = replace(TIGHT, spill_states=32, shared_states=32)
OPTIONS = {"beam": 6.0, "max_active": 60, "frame_shift": 0.1}
SPEECHES = [np.roll(SPEECH, 13 * i, axis=0) for i in range(6)]
SOON = Endpoint(RULES.rules | {"long": EndpointRule(min_trailing_silence=0.0, min_utterance_length=1.5)})


def seen(partial):
    """All that a partial result is made of."""
    return (
        partial.arcs.tobytes(), partial.score, partial.reached_final, partial.complete, partial.num_stable,
        partial.num_frames, partial.is_final, len(partial._settled), partial.words,
        None if partial.posteriors is None else partial.posteriors.tobytes(),
    )  # fmt: skip


def answers(partial):
    """What the end of a sentence has given besides its best path, as bytes and numbers."""
    lattice, nbest, found = partial.lattice, partial.nbest, partial.mbr
    return (
        None if lattice is None else packed(lattice._arrays),
        None if nbest is None else [(entry.arcs.tobytes(), entry.score, entry.posterior) for entry in nbest],
        partial.confidence, None if found is None else (found.text, found.errors, found.words), partial.sausage,
    )  # fmt: skip


def on_both(batch, rng, boosts=None, graph=GRAPH, most=9, where=None, asked=None, **options):
    """Streams in chunks, in the same company on both devices: their results are compared after each round.

    `where` : options of the decoder on the GPU alone
    `asked` : what each stream is asked for besides its best path; dicts that are taken in turns
    """
    boosts = boosts or [None] * len(batch)
    decoders = [CtcDecoder(graph, device="cuda", **options | (where or {})), CtcDecoder(graph, device="cpu", **options)]
    given = list(zip(boosts, itertools.cycle(asked or [{}]), strict=False))
    streams = [[decoder.stream(boost=one, **more) for one, more in given] for decoder in decoders]
    at = [0] * len(batch)
    while not all(stream.is_finished for stream in streams[0]):
        waiting = [i for i, stream in enumerate(streams[0]) if not stream.is_finished]
        chosen = rng.permutation(waiting)[: rng.integers(1, len(waiting) + 1)].tolist()
        ends = [at[i] + int(rng.integers(0, most)) for i in chosen]
        chunks = [batch[i][at[i] : end] for i, end in zip(chosen, ends, strict=True)]
        last = [bool(end >= len(batch[i]) and rng.random() < 0.7) for i, end in zip(chosen, ends, strict=True)]
        found, wanted = (
            decoder.decode_chunks([own[i] for i in chosen], chunks, last=last)
            for decoder, own in zip(decoders, streams, strict=True)
        )
        assert list(map(seen, found)) == list(map(seen, wanted))
        assert list(map(answers, found)) == list(map(answers, wanted))
        for i, end in zip(chosen, ends, strict=True):
            at[i] = min(end, len(batch[i]))
    finals = [stream.partial for stream in streams[0]]
    wanted = decoders[1].decode(batch, boost=boosts)
    if asked:
        for i, (one, more) in enumerate(given):
            whole = {name: value for name, value in more.items() if name not in OF_STREAMS}
            [wanted[i]] = decoders[1].decode([batch[i]], boost=one, **whole)
    same(finals, wanted)
    assert [(one.rescoring_score, one.boosts) for one in finals] == [
        (one.rescoring_score, one.boosts) for one in wanted
    ]
    return decoders[0], streams[0]


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED])
@pytest.mark.parametrize("seed", range(3))
def test_chunks(gpu, room, seed, boosted):
    gpu.begin_with(room)
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    _, streams = on_both(BATCH, np.random.default_rng(seed), boosts, **OPTIONS)
    assert sum(stream.num_settled for stream in streams) > 50


def posteriors(boosted, **options):
    """Of words, with and without lattices, beside streams that do not ask for any."""
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    asked = [{"posteriors": True}, {}, {"posteriors": True, "lattice": True, "interim_answers": True}]
    _, streams = on_both(BATCH, np.random.default_rng(2), boosts, asked=asked, **OPTIONS | options)
    assert [stream.partial.posteriors is None for stream in streams] == [False, True, False] * 2


@pytest.mark.parametrize("boosted", [False, True])
def test_posteriors(gpu, boosted):
    gpu.begin_with(TIGHT)
    posteriors(boosted, lattice_beam=4.0)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([TIGHT, ROOMY]),
    st.integers(0, 1000),
)
def test_random_graphs(emulated_gpu, graph, batch, beam, max_active, room, seed):
    """Graphs with dead ends and ties, searches that die, and chunks of any length."""
    emulated_gpu.begin_with(room)
    asked = [{"posteriors": seed % 2 == 0}]
    on_both(batch, np.random.default_rng(seed), None, graph, 4, asked=asked, beam=beam, max_active=max_active)


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_shapes_and_states_that_grow(gpu, monkeypatch, shape):
    monkeypatch.setattr(search_plan, "STREAM_TOKENS", 1)
    monkeypatch.setattr(search_plan, "STREAM_ENTRIES", 1)
    gpu.begin_with(TIGHT)
    gpu.launch_as(shape)
    on_both(BATCH, np.random.default_rng(5), **OPTIONS)


def test_windows_and_arrays_of_the_host(gpu):
    gpu.begin_with(replace(TIGHT, window_bytes=1))
    gpu.send_in_parts()
    on_both(BATCH, np.random.default_rng(6), **OPTIONS)


def test_a_refused_chunk_leaves_its_stream_as_it_was(gpu):
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    streams = [decoder.stream() for _ in range(2)]
    decoder.decode_chunks(streams, [BATCH[0][:9], BATCH[5][:9]])
    wrong = BATCH[0][9:20].copy()
    wrong[7, 3] = np.nan
    found = decoder.decode_chunks(streams, [wrong, BATCH[5][9:20]], errors="return")
    assert found[0].error is not None
    assert streams[0].num_frames == 9
    final = decoder.decode_chunks(streams, [BATCH[0][9:], BATCH[5][20:]], last=True)
    same(final, decoder.decode([BATCH[0], BATCH[5]]))
    with pytest.raises(ValueError, match="after the last"):
        streams[0].finish()


def test_a_failed_batch_leaves_all_streams_as_they_were(gpu):
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    streams = [decoder.stream() for _ in BATCH]
    decoder.decode_chunks(streams, [logp[:5] for logp in BATCH])
    rest = [logp[5:] for logp in BATCH]
    before = [stream.num_frames for stream in streams]
    states = [stream._state for stream in streams]
    failures = 0
    while not all(stream.is_finished for stream in streams):
        for _ in range(8 if failures < 3 else 0):  # all lanes, fewer, and as little as can be; each tried twice
            gpu.fake.fail("allocate", 2, 1 + failures)
        decoder.release()
        try:
            decoder.decode_chunks(streams, rest, last=True)
        except CudaOutOfMemoryError:
            failures += 1
            assert [stream.num_frames for stream in streams] == before
            assert [stream._state for stream in streams] == states
        gpu.fake.allow()
    assert failures
    same([stream.partial for stream in streams], decoder.decode(BATCH))


def test_memory_is_told_and_goes_back(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    streams = [decoder.stream() for _ in range(3)]
    decoder.decode_chunks(streams, [BATCH[0][:5]] * 3)
    told = decoder.memory().streams
    assert told == sum(stream._state.nbytes for stream in streams) > 0
    del streams
    assert decoder.memory().streams == 0


def test_a_batcher(gpu):
    """Its thread is another than the one that made the decoder and the streams."""
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    with Batcher(decoder, max_wait_ms=1) as batcher:
        streams = [decoder.stream() for _ in BATCH]
        for half in range(2):
            chunks = [np.array_split(utterance, 2)[half] for utterance in BATCH]
            futures = [batcher.submit(s, c, last=half == 1) for s, c in zip(streams, chunks, strict=True)]
            found = [future.result(60) for future in futures]
    same(found, CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(BATCH))


def test_a_batcher_that_cuts_long_chunks(gpu):
    """They lie in either memory; one on the GPU that is cut is copied from there."""
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    for one in BATCH:
        gpu.fake.lend("memory", one.ctypes.data, one.nbytes)
    with Batcher(decoder, max_wait_ms=1, max_frames=9) as batcher:
        wraps = itertools.cycle((np.asarray, DeviceArray))
        halves = [(decoder.stream(), np.array_split(one, 2), wrap) for one, wrap in zip(BATCH, wraps, strict=False)]
        for stream, (half, _), wrap in halves:
            batcher.submit(stream, wrap(half))
        futures = [batcher.submit(stream, wrap(half), last=True) for stream, (_, half), wrap in halves]
        found = [future.result(60) for future in futures]
    same(found, CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(BATCH))
    assert batcher.stats().rounds >= max(map(len, BATCH)) // 9


def test_a_batcher_that_goes_on_behind_endpoints(gpu):
    given = OPTIONS | {"frame_shift": 0.1}
    found = []
    for device in ("cuda", "cpu"):
        decoder = CtcDecoder(SILENCE, device=device, **given)
        with Batcher(decoder, max_wait_ms=1, max_frames=25, auto_reset=True) as batcher:
            futures = [batcher.submit(decoder.stream(endpoint=SOON), one[:90], last=True) for one in SPEECHES[:2]]
            found.append([list(map(seen, future.result(60).sentences)) for future in futures])
    assert found[0] == found[1] and all(len(each) > 2 for each in found[0])


def test_a_round_that_a_batcher_ends(gpu):
    """Its streams are as before, for whoever saves them or goes on with them."""
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    whole = BATCH[0]
    batcher, stream = Batcher(decoder, max_wait_ms=0), decoder.stream()
    batcher.submit(stream, whole[:9]).result(60)
    gpu.fake.library.fake_not_ready(10**9)  # what the round waits for does not come
    try:
        running = batcher.submit(stream, whole[9:])
        while batcher.stats().round_seconds == 0:
            time.sleep(0.001)
        batcher.close(timeout=0.0)
        with pytest.raises(BatcherClosedError, match="closed while this chunk was being decoded"):
            running.result(0)
    finally:
        gpu.fake.library.fake_not_ready(0)
    assert not batcher._thread.is_alive()
    assert stream.num_frames == 9 and decoder.restore(stream.save()).num_frames == 9
    same([stream.decode_chunk(whole[9:], last=True)], CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode([whole]))


def in_chunks(cut, shape, room=TIGHT, schedule=None, beam=6.0, endpoint=None, batch=None, graph=SILENCE, frames=21,
              asked=None, **options):  # fmt: skip
    """The first frames of a batch in chunks, under a schedule: the CPU's results after each round.

    A sentence that has come to an endpoint has chunks all the same, which do not change it. Of streams with outputs
    besides their paths (`asked`) every other one gives them after a round. Gives the number of frames and the rule that
    ended it of each.
    """

    @scheduled(schedule, room=room, shape=shape, **SMALL_STATES)
    def ends():
        decoders = [CtcDecoder(graph, device=on, **OPTIONS | {"beam": beam} | options) for on in ("cuda", "cpu")]
        short = [logp[:frames] for logp in batch or BATCH]
        streams = [[one.stream(endpoint=endpoint, **asked or {}) for _ in short] for one in decoders]
        for first in range(0, frames, cut):
            for number, pair in enumerate(zip(*streams, strict=True)):
                for stream in pair if asked else ():
                    stream.interim_answers = (number + first // cut) % 2 == 0
            chunks, last = [logp[first : first + cut] for logp in short], first + cut >= frames
            found, wanted = (
                one.decode_chunks(own, chunks, last=last) for one, own in zip(decoders, streams, strict=True)
            )
            assert list(map(seen, found)) == list(map(seen, wanted))
            assert list(map(answers, found)) == list(map(answers, wanted))
            assert [one.endpoint for one in found] == [one.endpoint for one in wanted]
        return [(one.num_frames, one.endpoint) for one in found]

    return ends()


def test_few_tokens():
    """Where tokens follow each other by epsilon arcs, and all paths share the first of them."""
    for beam in (0.0, 0.1, 0.3, 1.0):
        in_chunks(3, Shape(lanes=3, block=32), beam=beam)
        in_chunks(8, Shape(lanes=3, block=32), beam=beam, endpoint=SOON, batch=SPEECHES)  # ends often lack finals


def test_schedules():
    for schedule in schedules():
        in_chunks(7, Shape(lanes=3, block=64), LITTLE, schedule)
        in_chunks(11, Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=4), TIGHT, schedule)


def test_schedules_with_endpoints():
    for schedule in schedules():
        ends = in_chunks(8, Shape(lanes=3, block=64), LITTLE, schedule, endpoint=SOON, batch=SPEECHES)
        assert len({rule for _, rule in ends}) == 3
        shape = Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=4)
        in_chunks(30, shape, TIGHT, schedule, endpoint=SOON, batch=SPEECHES)


def test_silence_that_is_settled():
    """Frame by frame nearly all of a pause leaves the log before it is long enough."""
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.8)})
    batch = [spoken(0, 0, 1, *[0, 2] * 9), spoken(1, 0, 0, 0, 1, *[0] * 16), spoken(*[0] * 21)]
    for cut in (1, 3, 30):
        ends = in_chunks(cut, Shape(lanes=2, block=32), endpoint=pause, batch=batch, graph=LETTERS)
        assert ends == [(12, "pause"), (14, "pause"), (21, None)]


def test_silence_after_the_search_has_died():
    """In its chunk and in later ones."""
    pause = Endpoint({"end": RULES.rules["end"], "pause": EndpointRule(min_trailing_silence=0.8)})
    batch = [logp[:21].copy() for logp in SPEECHES]
    for i, logp in enumerate(batch):
        logp[3 + i :] = -np.inf
    for cut in (2, 5, 30):
        ends = in_chunks(cut, Shape(lanes=2, block=32), endpoint=pause, batch=batch)
        assert {rule for _, rule in ends} == {"end", "pause"}


@scheduled(room=LITTLE, shape=Shape(lanes=1, block=32))
def rows_behind_an_endpoint(**asked):
    """Of the chunk in which the sentence ends, whichever of them it is, and of later ones."""
    speech, decoder = SPEECHES[1][:12], CtcDecoder(SILENCE, device="cuda", **OPTIONS, lattice_beam=4.0)
    for row in (2, 3, 11):
        stream, wrong = decoder.stream(endpoint=SOON, **asked), speech.copy()
        wrong[row, 5] = np.nan
        with pytest.raises(ValueError, match=f"frame {row}, column 5"):
            stream.decode_chunk(wrong)
        assert stream.num_frames == 0
        ended = stream.decode_chunk(speech[:10])
        assert (ended.num_frames, ended.endpoint) == (2, "end")
        assert (ended.lattice is None) == (not asked)
        with pytest.raises(ValueError, match="frame 0, column 5"):
            stream.decode_chunk(wrong[row:])
        assert stream.num_frames == 2


def test_rows_behind_an_endpoint_are_checked():
    rows_behind_an_endpoint()


@scheduled(room=LITTLE, shape=Shape(lanes=1, block=32))
def test_a_search_that_died_checks_later_chunks_whole():
    """And one that follows in the same lane begins with nothing of it."""
    never, good = np.full((3, 12), -np.inf, np.float32), BATCH[5][:9]
    decoders = [CtcDecoder(GRAPH, device=device, beam=4.0, max_active=20) for device in ("cuda", "cpu")]
    streams = [[one.stream() for _ in range(2)] for one in decoders]
    for chunks in ([never, good], [good[:0], good], [good, good]):
        found, wanted = (one.decode_chunks(own, chunks) for one, own in zip(decoders, streams, strict=True))
        assert list(map(seen, found)) == list(map(seen, wanted))
    wrong = good.copy()
    wrong[0, 0] = np.nan
    before = streams[0][0].save()
    found = decoders[0].decode_chunks(streams[0], [wrong, good], errors="return")
    assert "frame 0, column 0" in str(found[0].error)
    assert streams[0][0].save() == before
