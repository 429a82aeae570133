"""Lattices of streams on a GPU are the CPU's bytes: the kernels under the emulator, and the host around them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, CudaOutOfMemoryError, Endpoint, EndpointRule
from arcbeam.ctc.streams.endpoint import EndpointRules
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT
from tests.decode.equality import same
from tests.decode.host_streams import HostStream
from tests.decode.lattices import numbered, packed
from tests.decode.search_host import Room, SearchHost, Shape
from tests.decode.search_layout import BAD_LOG_PROB
from tests.decode.small_search import AS_SHIPPED, ROOMY
from tests.decode.test_endpoints import LETTERS, RULES, SILENCE, SPEECH, spoken
from tests.decode.test_stream_lattices import ASKED, check, no_memory
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import OPTIONS, SOON, SPEECHES, answers, on_both, seen
from tests.hypothesis_examples import examples
from tests.simt.build import schedules

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
LATTICES = OPTIONS | {"lattice_beam": 4.0}
INTERIM = {"interim_answers": True}
SOME = [ASKED, {}, {"lattice": True} | INTERIM, {"nbest": 2}]  # of streams that are decoded together
SHORT = [one[:18] for one in BATCH]
PRUNED = Room(capacity=32, spill_capacity=32, log=256, links=256)


def small_states(monkeypatch, prune_above):
    """States that begin with no room, and are pruned above so many entries and links."""
    monkeypatch.setattr(search_plan, "STREAM_PRUNE_ABOVE", prune_above)
    monkeypatch.setattr(search_plan, "STREAM_LINKS", 1)
    monkeypatch.setattr(search_plan, "STREAM_TOKENS", 1)
    monkeypatch.setattr(search_plan, "STREAM_ENTRIES", 1)


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize(("room", "prune_above"), [(TIGHT, 0), (TIGHT, 64), (AS_SHIPPED, 1 << 12)])
def test_chunks(gpu, monkeypatch, room, prune_above, boosted):
    """States are pruned after every chunk, now and then, or never."""
    gpu.begin_with(room)
    small_states(monkeypatch, prune_above)
    boosts = [boost(i) if i % 3 else None for i in range(len(SHORT))] if boosted else None
    on_both(SHORT, np.random.default_rng(1), boosts, asked=SOME, **LATTICES)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.sampled_from([0.0, 2.0, 99.0]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([TIGHT, ROOMY]),
    st.integers(0, 1000),
)
def test_random_graphs(emulated_gpu, graph, batch, beam, lattice_beam, max_active, room, seed):
    """Graphs with dead ends and ties, searches that die, and chunks of any length."""
    emulated_gpu.begin_with(room)
    emulated_gpu.monkeypatch.setattr(search_plan, "STREAM_PRUNE_ABOVE", seed % 3 * 8)
    options = {"beam": beam, "lattice_beam": lattice_beam, "max_active": max_active, "frame_shift": 0.25}
    on_both(batch, np.random.default_rng(seed), None, graph, 4, asked=[ASKED | INTERIM], **options)


@pytest.mark.parametrize("shape", [search_plan.DENSE, search_plan.CLUSTER])
def test_shapes(gpu, shape):
    gpu.begin_with(TIGHT)
    gpu.launch_as(shape)
    on_both(SHORT[:3], np.random.default_rng(5), asked=[ASKED | INTERIM], **LATTICES)


def test_windows_and_arrays_of_the_host(gpu):
    gpu.begin_with(replace(TIGHT, window_bytes=1))
    gpu.send_in_parts()
    on_both(SHORT, np.random.default_rng(6), asked=SOME, **LATTICES)


def sentences():
    """Endpoints, chunks behind them, and the sentences that follow with the frames that wait."""
    pair = [CtcDecoder(SILENCE, device=on, **LATTICES) for on in ("cuda", "cpu")]
    streams = [decoder.stream(endpoint=RULES, boost=boost(1), **ASKED) for decoder in pair]
    rng, ended = np.random.default_rng(3), 0
    for at in range(0, 90, 6):
        found, wanted = (one.decode_chunk(SPEECH[at : at + 6]) for one in streams)
        for _ in range(9):
            assert (seen(found), answers(found), found.endpoint) == (seen(wanted), answers(wanted), wanted.endpoint)
            if found.endpoint is None or rng.random() < 0.4:
                break
            ended += found.nbest is not None
            found, wanted = (one.reset() for one in streams)
    found, wanted = (one.finish() for one in streams)
    assert answers(found) == answers(wanted)
    assert ended > 3


def test_sentences(gpu, monkeypatch):
    gpu.begin_with(TIGHT)
    small_states(monkeypatch, 64)
    sentences()


def test_a_state_is_given_back_with_its_lattice(gpu):
    decoder = CtcDecoder(SILENCE, device="cuda", **LATTICES)
    last, ended = decoder.stream(**ASKED), decoder.stream(endpoint=RULES, **ASKED)
    decoder.decode_chunks([last], [SPEECH[:9]])
    assert decoder.memory().streams > 0
    decoder.decode_chunks([last, ended], [SPEECH[9:20], SPEECH[:60]], last=[True, False])
    assert ended.partial.endpoint is not None and decoder.memory().streams == 0
    final, wrong = ended.partial, SPEECH[:9].copy()
    wrong[4, 2] = np.nan
    with pytest.raises(ValueError, match="frame 4"):
        ended.decode_chunk(wrong)
    waiting = ended.num_waiting
    assert ended.decode_chunk(SPEECH[:9]) is final and ended.num_waiting == waiting + 9
    assert decoder.memory().streams == 0
    check([last.partial, final], decoder.decode([SPEECH[:20], SPEECH[: final.num_frames]], **ASKED))


def test_a_refused_chunk_leaves_its_stream_as_it_was(gpu):
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **LATTICES)
    streams = [decoder.stream(**ASKED) for _ in range(2)]
    decoder.decode_chunks(streams, [BATCH[0][:9], BATCH[5][:9]])
    wrong = BATCH[0][9:20].copy()
    wrong[7, 3] = np.nan
    for last in (False, True):
        assert decoder.decode_chunks(streams[:1], [wrong], last=last, errors="return")[0].error is not None
        assert streams[0].num_frames == 9 and not streams[0].is_finished
    final = decoder.decode_chunks(streams, [BATCH[0][9:], BATCH[5][9:]], last=True)
    check(final, decoder.decode([BATCH[0], BATCH[5]], **ASKED))


def test_a_failed_batch_leaves_all_streams_as_they_were(gpu):
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **LATTICES)
    streams = [decoder.stream(**SOME[i % 2]) for i in range(len(BATCH))]
    decoder.decode_chunks(streams, [logp[:5] for logp in BATCH])
    failures = 0
    while not all(stream.is_finished for stream in streams):
        for _ in range(8 if failures < 4 else 0):  # all lanes, fewer, and as little as can be; each tried twice
            gpu.fake.fail("allocate", 2, 1 + 2 * failures)
        decoder.release()
        try:
            decoder.decode_chunks(streams, [logp[5:] for logp in BATCH], last=True)
        except CudaOutOfMemoryError:
            failures += 1
            assert [stream.num_frames for stream in streams] == [min(len(logp), 5) for logp in BATCH]
        gpu.fake.allow()
    assert failures
    same([stream.partial for stream in streams[1::2]], decoder.decode(BATCH[1::2]))
    check([stream.partial for stream in streams[::2]], decoder.decode(BATCH[::2], **ASKED))


def test_a_lost_result_is_said(gpu, monkeypatch):
    """Where a sentence's lattice was made and its answers could not be, looking at them raises, and streams go on."""
    decoder = CtcDecoder(GRAPH, device="cuda", **LATTICES)
    plain, asking = decoder.stream(), decoder.stream(**ASKED)
    with monkeypatch.context() as patch:
        patch.setattr(decoder._reader, "answers", no_memory)
        lost = decoder.decode_chunks([plain, asking], [BATCH[0]] * 2, last=[False, True])[1]
    with pytest.raises(MemoryError):
        _ = lost.nbest
    check([decoder.restore(asking.save()).partial], decoder.decode([BATCH[0]], **ASKED))
    asking.reset()
    check([asking.decode_chunk(BATCH[0], last=True)], decoder.decode([BATCH[0]], **ASKED), [len(BATCH[0])])
    same([plain.decode_chunk(BATCH[2], last=True)], decoder.decode([np.concatenate([BATCH[0], BATCH[2]])]))


def test_a_state_too_large_for_the_lanes(gpu):
    """A lane that begins with little room takes a long sentence's state from one that has had more."""
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **LATTICES | {"lattice_beam": math.inf})
    stream = decoder.stream(**ASKED)
    for at in range(0, 64, 32):
        decoder.decode_chunks([stream], [BATCH[5][at : at + 32]])
        decoder.release()
    check([stream.finish()], decoder.decode([BATCH[5]], **ASKED))


def test_streams_that_keep_links_need_a_lattice_beam(gpu):
    engine = CtcDecoder(GRAPH, device="cuda", **LATTICES)._engine
    stream, nothing = engine.new_stream(lattice_beam=4.0), np.zeros((1, 4), np.int64)
    with pytest.raises(ValueError, match="lattice_beam: expected a cost, because there are streams that keep links"):
        engine.decode(nothing, 12, False, streams=[stream], last=[False])


# The kernel alone, under random schedules with races detected


def by_the_kernel(cut, shape, room=None, beam=6.0, lattice_beam=4.0, endpoint=None, batch=None, graph=SILENCE,
                  frames=21, **schedule):  # fmt: skip
    """Chunks that the kernel alone decodes, its host being of the simplest kind, against the CPU's results; the
    lattices of sentences that end among them or with the last chunk, and of every other chunk before."""
    limits = {"beam": beam, "max_active": 60, "lattice_beam": lattice_beam}
    host, cpu = SearchHost(graph, room=room, **limits), CtcDecoder(graph, **OPTIONS | limits, device="cpu")
    rules = None if endpoint is None else EndpointRules.of(endpoint, graph, OPTIONS["frame_shift"])
    short = [logp[:frames] for logp in batch or BATCH]
    states = [HostStream(rules=rules) for _ in short]
    streams = [cpu.stream(endpoint=endpoint, lattice=True) for _ in short]
    for first in range(0, frames, cut):
        last = first + cut >= frames
        chunks = [np.ascontiguousarray(logp[first : first + cut]) for logp in short]
        for number, (state, stream) in enumerate(zip(states, streams, strict=True)):
            state.shows = stream.interim_answers = (number + first // cut) % 2 == 0
        ended = [state.lattice is not None for state in states]
        found = host.decode(chunks, shape, streams=states, last=last, **schedule)
        wanted = cpu.decode_chunks(streams, chunks, last=last)
        for state, has_ended, got, want in zip(states, ended, found, wanted, strict=True):
            if has_ended:
                assert got.lattice is None
                continue
            assert (got.lattice is None) == (want.lattice is None)
            assert state.settled == want.arcs[: len(want._settled)].tolist()
            assert state.settled + got.arcs.tolist() == want.arcs.tolist()
            assert np.float64(got.total_cost).tobytes() == np.float64(0.0 - want.partial_score).tobytes()
            assert got.reached_final == want.reached_final
            if want.lattice is not None:
                whole = replace(got, arcs=want.arcs, work=(1 if want.complete else 0,))
                assert packed(numbered(graph, whole, 1)) == packed(want.lattice._arrays)
        assert [state.frames for state in states] == [stream.num_frames for stream in streams]
        assert [state.fired for state in states] == [stream._state.fired for stream in streams]
    return states


def test_few_tokens():
    """Where tokens follow each other by epsilon arcs, and all paths share the first of them."""
    for beam in (0.0, 0.1, 0.3, 1.0):
        by_the_kernel(3, Shape(lanes=3, block=32), beam=beam)
        by_the_kernel(8, Shape(lanes=3, block=32), beam=beam, endpoint=SOON, batch=SPEECHES)


@pytest.mark.parametrize("lattice_beam", [0.0, 4.0, math.inf])
def test_schedules(lattice_beam):
    of = {"lattice_beam": lattice_beam, "batch": [BATCH[0], BATCH[2], BATCH[5]], "frames": 14}
    for schedule in schedules():
        by_the_kernel(5, Shape(lanes=2, block=64), PRUNED, **of | schedule)
    by_the_kernel(8, Shape(kernel="cluster", lanes=2, cluster=2, block=32, team_tokens=4), **of)


def test_schedules_with_endpoints():
    for schedule in schedules():
        of = {"endpoint": SOON, "batch": SPEECHES[:3]} | schedule
        found = by_the_kernel(8, Shape(lanes=2, block=64), PRUNED, **of)
        assert len({state.fired for state in found}) > 1


def test_silence_in_a_log_that_keeps_it():
    """Frame by frame all of a pause is settled, and counted once."""
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.8)})
    batch = [spoken(0, 0, 1, *[0, 2] * 9), spoken(1, 0, 0, 0, 1, *[0] * 16), spoken(*[0] * 21)]
    for cut in (1, 3, 30):
        found = by_the_kernel(cut, Shape(lanes=2, block=32), endpoint=pause, batch=batch, graph=LETTERS)
        assert [(state.frames, state.fired) for state in found] == [(12, 1), (14, 1), (21, 0)]


def test_a_search_that_has_died():
    """In its chunk and in later ones, with an endpoint behind it and without."""
    pause = Endpoint({"end": RULES.rules["end"], "pause": EndpointRule(min_trailing_silence=0.8)})
    batch = [logp[:21].copy() for logp in SPEECHES]
    for i, logp in enumerate(batch):
        logp[3 + i :] = -np.inf
    for cut in (2, 5, 30):
        by_the_kernel(cut, Shape(lanes=2, block=32), batch=batch)
        found = by_the_kernel(cut, Shape(lanes=2, block=32), endpoint=pause, batch=batch)
        assert {state.fired for state in found} == {1, 2}


def test_rows_behind_an_endpoint_are_checked():
    """Of the chunk in which the sentence ends, which then gives no lattice, and of later ones."""
    host = SearchHost(SILENCE, beam=6.0, lattice_beam=4.0, room=PRUNED)
    lane, rules = Shape(lanes=1, block=32), EndpointRules.of(SOON, SILENCE, OPTIONS["frame_shift"])
    speech = SPEECHES[1][:12]
    for row in (2, 3, 11):
        stream, wrong = HostStream(rules=rules), speech.copy()
        wrong[row, 5] = np.nan
        [found] = host.decode([wrong], lane, streams=[stream])
        assert (found.outcome, found.bad_frame, found.bad_column, found.lattice) == (BAD_LOG_PROB, row, 5, None)
        [found] = host.decode([speech[:10]], lane, streams=[stream])
        assert (stream.frames, stream.fired) == (2, 2) and found.lattice is not None
        [found] = host.decode([wrong[row:]], lane, streams=[stream])
        assert (found.outcome, found.bad_frame, stream.frames) == (BAD_LOG_PROB, 0, 2)
