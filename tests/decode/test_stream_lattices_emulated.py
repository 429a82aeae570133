"""Lattices of streams on a GPU are the CPU's bytes: the kernels under the emulator, and the host around them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, CudaOutOfMemoryError, Endpoint, EndpointRule
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode import test_streams_emulated as plain
from tests.decode.emulated_gpu import TIGHT, Shape, scheduled
from tests.decode.equality import same
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
PRUNED = replace(plain.LITTLE, log_entries=256, links=256)


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


def in_chunks(cut, shape, room=TIGHT, schedule=None, lattice_beam=4.0, **options):
    """Lattices of sentences that end among the chunks or with the last one, and of every other chunk before."""
    return plain.in_chunks(cut, shape, room, schedule, asked={"lattice": True}, lattice_beam=lattice_beam, **options)


def test_few_tokens():
    """Where tokens follow each other by epsilon arcs, and all paths share the first of them."""
    for beam in (0.0, 0.1, 0.3, 1.0):
        in_chunks(3, Shape(lanes=3, block=32), beam=beam)
        in_chunks(8, Shape(lanes=3, block=32), beam=beam, endpoint=SOON, batch=SPEECHES)


@pytest.mark.parametrize("lattice_beam", [0.0, 4.0, math.inf])
def test_schedules(lattice_beam):
    of = {"lattice_beam": lattice_beam, "batch": [BATCH[0], BATCH[2], BATCH[5]], "frames": 14}
    for schedule in schedules():
        in_chunks(5, Shape(lanes=2, block=64), PRUNED, schedule, **of)
    in_chunks(8, Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=4), **of)


def test_schedules_with_endpoints():
    for schedule in schedules():
        ends = in_chunks(8, Shape(lanes=2, block=64), PRUNED, schedule, endpoint=SOON, batch=SPEECHES[:3])
        assert len({rule for _, rule in ends}) > 1


def test_silence_in_a_log_that_keeps_it():
    """Frame by frame all of a pause is settled, and counted once."""
    pause = Endpoint({"pause": EndpointRule(min_trailing_silence=0.8)})
    batch = [spoken(0, 0, 1, *[0, 2] * 9), spoken(1, 0, 0, 0, 1, *[0] * 16), spoken(*[0] * 21)]
    for cut in (1, 3, 30):
        ends = in_chunks(cut, Shape(lanes=2, block=32), endpoint=pause, batch=batch, graph=LETTERS)
        assert ends == [(12, "pause"), (14, "pause"), (21, None)]


def test_a_search_that_has_died():
    """In its chunk and in later ones, with an endpoint behind it and without."""
    pause = Endpoint({"end": RULES.rules["end"], "pause": EndpointRule(min_trailing_silence=0.8)})
    batch = [logp[:21].copy() for logp in SPEECHES]
    for i, logp in enumerate(batch):
        logp[3 + i :] = -np.inf
    for cut in (2, 5, 30):
        in_chunks(cut, Shape(lanes=2, block=32), batch=batch)
        ends = in_chunks(cut, Shape(lanes=2, block=32), endpoint=pause, batch=batch)
        assert {rule for _, rule in ends} == {"end", "pause"}


def test_rows_behind_an_endpoint_are_checked():
    """Of a chunk that then gives no lattice."""
    plain.rows_behind_an_endpoint(lattice=True)


def test_streams_that_have_ended_give_no_lattice():
    """They end one after another, so the memory of lattices has room for those of a few, and would have to grow."""
    with scheduled(shape=Shape(lanes=4)) as gpu:
        decoder = CtcDecoder(SILENCE, device="cuda", **LATTICES)
        streams = [decoder.stream(endpoint=RULES, lattice=True) for _ in range(8)]
        rounds = []
        for at in range(0, 90, 6):
            live, before = streams[: at // 6 + 1], len(gpu.launches)
            chunks = [SPEECH[at - 6 * i : at - 6 * i + 6] for i in range(len(live))]
            ended = [part.endpoint is not None for part in decoder.decode_chunks(live, chunks)]
            rounds.append((len(gpu.launches) - before, sum(ended)))
        del decoder, streams, live
    assert rounds[-4:] == [(1, 8)] * 4
