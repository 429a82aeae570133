"""Streams of the GPU's engine are the CPU engine's bytes: the kernels under the emulator, and the host around them."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from arcbeam import Batcher, CtcDecoder, CudaOutOfMemoryError, Endpoint, EndpointRule
from arcbeam.gpu.tuned import search_plan
from tests.batching.stand_ins import ended_by_a_batcher
from tests.decode.emulated_gpu import TIGHT, DeviceArray, Shape, scheduled
from tests.decode.equality import same
from tests.decode.moving import answers, seen
from tests.decode.test_endpoints import LETTERS, RULES, SILENCE, SPEECH, spoken
from tests.decode.test_stream_lattices import REQUESTED
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.wholes import check_sentences, conform
from tests.simt.build import schedules

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
SMALL_STATES = {"STREAM_TOKENS": 1, "STREAM_ENTRIES": 1, "STREAM_LINKS": 1, "STREAM_PRUNE_ABOVE": 0}  # which grow
LITTLE = replace(TIGHT, spill_states=32, shared_states=32)
PRUNED = replace(LITTLE, log_entries=256, links=256)
OPTIONS = {"beam": 6.0, "max_active": 60, "frame_shift": 0.1}
LATTICES = OPTIONS | {"lattice_beam": 4.0}
SPEECHES = [np.roll(SPEECH, 13 * i, axis=0) for i in range(6)]
SHORT = [one[:24] for one in BATCH]
SOON = Endpoint(RULES.rules | {"long": EndpointRule(min_trailing_silence=0.0, min_utterance_length=1.5)})
INTERIM = {"interim_answers": True}
SOME = [REQUESTED, {}, {"lattice": True} | INTERIM, {"nbest": 2}]  # of streams that are decoded together
# Of `in_chunks`: streams that give their best paths alone, and that keep links.
PATHS, LINKS = {}, {"requested": {"lattice": True}, "lattice_beam": 4.0}
OUTPUTS = pytest.mark.parametrize("requested", [[{}], SOME], ids=["best paths", "lattices"])
KEPT = pytest.mark.parametrize("kept", [PATHS, LINKS], ids=["best paths", "lattices"])


def small_states(monkeypatch, prune_above):
    """States that begin with no room, and are pruned above so many entries and links."""
    for name, figure in (SMALL_STATES | {"STREAM_PRUNE_ABOVE": prune_above}).items():
        monkeypatch.setattr(search_plan, name, figure)


def on_both(batch, rng, boosts=None, graph=GRAPH, most=9, where=None, requested=({},), **options):
    """Streams in chunks on a GPU, and alone on the CPU: results after each round, the end of each, and its state.

    `where` : options of the decoder on the GPU alone
    `requested` : what each stream is requested besides its best path; dicts that are taken in turns
    """
    decoders = [CtcDecoder(graph, device="cuda", **options | (where or {})), CtcDecoder(graph, device="cpu", **options)]
    pairs = conform(decoders, batch, rng, boosts, most, requested=requested, share=0.0)
    return decoders[0], [pair.moves for pair in pairs]


def posteriors(boosted, **options):
    """Of words, with and without lattices, in rounds with streams without any."""
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    requested = [{"posteriors": True}, {}, {"posteriors": True, "lattice": True, "interim_answers": True}]
    _, streams = on_both(BATCH, np.random.default_rng(2), boosts, requested=requested, **OPTIONS | options)
    assert [stream.partial.posteriors is None for stream in streams] == [False, True, False] * 2


@pytest.mark.parametrize("boosted", [False, True])
def test_posteriors(gpu, boosted):
    gpu.begin_with(TIGHT)
    posteriors(boosted, lattice_beam=4.0)


@OUTPUTS
@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_shapes_and_states_that_grow(gpu, monkeypatch, shape, requested):
    small_states(monkeypatch, 0)
    gpu.begin_with(TIGHT)
    gpu.launch_as(shape)
    _, streams = on_both(SHORT, np.random.default_rng(5), requested=requested, **LATTICES)
    assert sum(stream.num_settled for stream in streams) > 10


@OUTPUTS
def test_windows_and_arrays_of_the_host(gpu, requested):
    gpu.begin_with(replace(TIGHT, window_bytes=1))
    gpu.send_in_parts()
    on_both(SHORT, np.random.default_rng(6), requested=requested, **LATTICES)


@OUTPUTS
def test_a_failed_batch_leaves_all_streams_as_they_were(gpu, requested):
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **LATTICES)
    outputs = [requested[i % len(requested)] for i in range(len(BATCH))]
    streams = [decoder.stream(**one) for one in outputs]
    decoder.decode_chunks(streams, [logp[:5] for logp in BATCH])
    before = [(stream.num_frames, stream._state) for stream in streams]
    failures = 0
    while not all(stream.is_finished for stream in streams):
        for _ in range(8 if failures < 4 else 0):  # all lanes, fewer, and as little as can be; each tried twice
            gpu.fake.fail("allocate", 2, 1 + 2 * failures)
        decoder.release()
        try:
            decoder.decode_chunks(streams, [logp[5:] for logp in BATCH], last=True)
        except CudaOutOfMemoryError:
            failures += 1
            assert [(stream.num_frames, stream._state) for stream in streams] == before
        gpu.fake.allow()
    assert failures
    for stream, log_probs, one in zip(streams, BATCH, outputs, strict=True):
        check_sentences([stream.partial], [(0, len(log_probs), None)], decoder, log_probs, requested=one)


def test_memory_is_told_and_goes_back(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    streams = [decoder.stream() for _ in range(3)]
    decoder.decode_chunks(streams, [BATCH[0][:5]] * 3)
    told = decoder.memory().streams
    assert told == sum(stream._state.nbytes for stream in streams) > 0
    del streams
    assert decoder.memory().streams == 0


def test_streams_that_begin_take_the_rooms_of_those_that_have_ended(gpu):
    """Those with a boost do not, whose rooms have histories; the engine gives them back where memory is short."""
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    others = decoder.memory().batch

    def turn(**options):
        streams = [decoder.stream(**options) for _ in range(3)]
        parts = [decoder.decode_chunks(streams, [one[at : at + 4] for one in BATCH[:3]]) for at in (0, 4)]
        return [seen(partial) for part in parts for partial in part], [stream.save() for stream in streams]

    first, boosted = turn(), turn(boost=boost(1))
    spare = decoder.memory().batch - others
    gpu.fake.refuse("allocate", "set_bytes")
    assert turn() == first
    with pytest.raises(CudaOutOfMemoryError):
        turn(boost=boost(1))
    gpu.fake.allow()
    assert decoder.memory().batch < spare  # which went with the failure
    assert turn(boost=boost(1)) == boosted and turn() == first
    decoder.release()
    assert decoder.memory().batch == 0


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


def test_a_batcher_that_goes_on_after_endpoints(gpu):
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
    stream = ended_by_a_batcher(decoder, whole, gpu.fake.library)
    assert stream.num_frames == 9 and decoder.restore(stream.save()).num_frames == 9
    same([stream.decode_chunk(whole[9:], last=True)], CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode([whole]))


def in_chunks(cut, shape, room=TIGHT, schedule=None, beam=6.0, endpoint=None, batch=None, graph=SILENCE, frames=21,
              requested=None, **options):  # fmt: skip
    """The first frames of a batch in chunks, under a schedule: the CPU's results after each round.

    A sentence that has come to an endpoint has chunks all the same, which do not change it. Of streams with outputs
    besides their paths (`requested`) every other one gives them after a round. Gives the number of frames and the rule
    that ended it of each.
    """

    @scheduled(schedule, room=room, shape=shape, **SMALL_STATES)
    def ends():
        decoders = [CtcDecoder(graph, device=on, **OPTIONS | {"beam": beam} | options) for on in ("cuda", "cpu")]
        short = [logp[:frames] for logp in batch or BATCH]
        streams = [[one.stream(endpoint=endpoint, **requested or {}) for _ in short] for one in decoders]
        for first in range(0, frames, cut):
            for number, pair in enumerate(zip(*streams, strict=True)):
                for stream in pair if requested else ():
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


@KEPT
def test_few_tokens(kept):
    """Where tokens follow each other by epsilon arcs, and all paths share the first of them."""
    for beam in (0.0, 0.1, 0.3, 1.0):
        in_chunks(3, Shape(lanes=3, block=32), beam=beam, **kept)
        in_chunks(8, Shape(lanes=3, block=32), beam=beam, endpoint=SOON, batch=SPEECHES, **kept)  # finals are few


@pytest.mark.parametrize(
    ("kept", "room"), [(PATHS, LITTLE), *((LINKS | {"lattice_beam": beam}, PRUNED) for beam in (0.0, 4.0, math.inf))]
)
def test_schedules(kept, room):
    of = kept | {"batch": [BATCH[0], BATCH[2], BATCH[5]], "frames": 14}
    for schedule in schedules():
        in_chunks(5, Shape(lanes=2, block=64), room, schedule, **of)
    for schedule in schedules(5 if kept is PATHS else 1):
        in_chunks(8, Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=4), TIGHT, schedule, **of)


@pytest.mark.parametrize(("kept", "room"), [(PATHS, LITTLE), (LINKS, PRUNED)])
def test_schedules_with_endpoints(kept, room):
    of = kept | {"endpoint": SOON, "batch": SPEECHES[:4]}
    for schedule in schedules():
        ends = in_chunks(8, Shape(lanes=2, block=64), room, schedule, **of)
        assert len({rule for _, rule in ends}) > 1
        in_chunks(30, Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=4), TIGHT, schedule, **of)


@KEPT
def test_silence_that_is_settled(kept):
    """Frame by frame nearly all of a pause leaves the log before it is long enough, or is kept, and counted once."""
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.8)})
    batch = [spoken(0, 0, 1, *[0, 2] * 9), spoken(1, 0, 0, 0, 1, *[0] * 16), spoken(*[0] * 21)]
    for cut in (1, 3, 30):
        ends = in_chunks(cut, Shape(lanes=2, block=32), endpoint=pause, batch=batch, graph=LETTERS, **kept)
        assert ends == [(12, "pause"), (14, "pause"), (21, None)]


@KEPT
def test_a_search_that_has_died(kept):
    """In its chunk and in later ones, with an endpoint after it and without."""
    pause = Endpoint({"end": RULES.rules["end"], "pause": EndpointRule(min_trailing_silence=0.8)})
    batch = [logp[:21].copy() for logp in SPEECHES]
    for i, logp in enumerate(batch):
        logp[3 + i :] = -np.inf
    for cut in (2, 5, 30):
        in_chunks(cut, Shape(lanes=2, block=32), batch=batch, **kept)
        ends = in_chunks(cut, Shape(lanes=2, block=32), endpoint=pause, batch=batch, **kept)
        assert {rule for _, rule in ends} == {"end", "pause"}


@pytest.mark.parametrize("requested", [{}, {"lattice": True}])
@scheduled(room=LITTLE, shape=Shape(lanes=1, block=32))
def test_rows_after_an_endpoint_are_checked(requested):
    """Of the chunk in which the sentence ends, whichever of them it is, and of later ones."""
    speech, decoder = SPEECHES[1][:12], CtcDecoder(SILENCE, device="cuda", **OPTIONS, lattice_beam=4.0)
    for row in (2, 3, 11):
        stream, wrong = decoder.stream(endpoint=SOON, **requested), speech.copy()
        wrong[row, 5] = np.nan
        with pytest.raises(ValueError, match=f"frame {row}, column 5"):
            stream.decode_chunk(wrong)
        assert stream.num_frames == 0
        ended = stream.decode_chunk(speech[:10])
        assert (ended.num_frames, ended.endpoint) == (2, "end")
        assert (ended.lattice is None) == (not requested)
        with pytest.raises(ValueError, match="frame 0, column 5"):
            stream.decode_chunk(wrong[row:])
        assert stream.num_frames == 2


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
