"""Streams of the GPU's engine are the CPU engine's bytes: the kernels under the emulator, and the host around them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Batcher, CtcDecoder, CudaOutOfMemoryError, UnsupportedError
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT
from tests.decode.equality import same
from tests.decode.small_search import AS_SHIPPED, ROOMY
from tests.decode.test_streams import BATCH, GRAPH, boost, rescoring

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
OPTIONS = {"beam": 6.0, "max_active": 60, "frame_shift": 0.02}


def seen(partial):
    """All that a partial result is made of."""
    return (
        partial.arcs.tobytes(), partial.score, partial.reached_final, partial.complete, partial.num_stable,
        partial.num_frames, partial.is_final, len(partial._settled), partial.words,
    )  # fmt: skip


def on_both(batch, rng, boosts=None, graph=GRAPH, most=9, **options):
    """Streams in chunks, in the same company on both devices: their results are compared after each round."""
    boosts = boosts or [None] * len(batch)
    decoders = [CtcDecoder(graph, device=device, **options) for device in ("cuda", "cpu")]
    streams = [[decoder.stream(boost=one) for one in boosts] for decoder in decoders]
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
        for i, end in zip(chosen, ends, strict=True):
            at[i] = min(end, len(batch[i]))
    same([stream.partial for stream in streams[0]], decoders[1].decode(batch, boost=boosts))
    return decoders[0], streams[0]


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED])
@pytest.mark.parametrize("seed", range(3))
def test_chunks(gpu, room, seed, boosted):
    gpu.begin_with(room)
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    _, streams = on_both(BATCH, np.random.default_rng(seed), boosts, **OPTIONS)
    assert sum(stream.num_settled for stream in streams) > 50


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    on_both(batch, np.random.default_rng(seed), None, graph, 4, beam=beam, max_active=max_active)


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
    with pytest.raises(ValueError, match="behind the last"):
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


def test_not_with_a_language_model(gpu):
    cpu = rescoring()
    models = {"language_model": cpu._rescoring.large, "graph_language_model": cpu._rescoring.small}
    decoder = CtcDecoder(cpu.graph, device="cuda", **models, **OPTIONS)
    with pytest.raises(UnsupportedError, match="device='cpu'"):
        decoder.stream()


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
