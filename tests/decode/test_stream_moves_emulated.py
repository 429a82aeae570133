"""Streams that move between a CPU and a GPU, and end at endpoints there: under the emulator, the bytes of the CPU."""

import random
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, CudaOutOfMemoryError, Endpoint, EndpointRule
from arcbeam.ctc import stream_state
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.decode.endpoint_oracle import sentences
from tests.decode.equality import same
from tests.decode.small_search import AS_SHIPPED, ROOMY
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH, check_sentences, followed
from tests.decode.test_stream_states import with_moves
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import OPTIONS, seen
from tests.gpu import sanitized
from tests.graph import sealing

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def on_both(graph=GRAPH, **options):
    return [CtcDecoder(graph, device=device, **OPTIONS | options) for device in ("cuda", "cpu")]


def moves(seed, boosted):
    decoders = on_both()
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    found = with_moves(decoders, BATCH, np.random.default_rng(seed), boosts)
    same(found, decoders[1].decode(BATCH, boost=boosts))


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED])
def test_moves(gpu, room, boosted):
    gpu.begin_with(room)
    moves(1, boosted)


def states_of_all_chunks(one):
    for frames in (0, 1, 17, 64):
        states = set()
        for decoder in on_both():
            for chunk in (1, 9, 100):
                stream, company = decoder.stream(boost=one), decoder.stream(boost=boost(1))
                decoder.decode_chunks([stream], [BATCH[5][:0]])
                for at in range(0, frames, chunk):
                    decoder.decode_chunks([company, stream], [BATCH[3], BATCH[5][at : min(at + chunk, frames)]])
                states.add(stream.save())
        assert len(states) == 1


@pytest.mark.parametrize("one", [None, boost(0)])
def test_the_bytes_depend_on_the_frames_alone(gpu, one):
    """Not on the engine, on chunks, on company with a boost, or on when logs are collected."""
    gpu.begin_with(TIGHT)
    states_of_all_chunks(one)


@few
@given(
    st.data(),
    graphs.graphs(blank=3),
    graphs.log_probs(max_frames=16),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.sampled_from([TIGHT, ROOMY]),
)
def test_any_graph(emulated_gpu, data, graph, log_probs, beam, room):
    """Moves and endpoints with dead ends, ties of costs, and searches that die."""
    emulated_gpu.begin_with(room)
    decoders = on_both(graph, beam=beam)
    rule = st.builds(
        EndpointRule,
        must_contain_nonsilence=st.booleans(),
        min_trailing_silence=st.sampled_from([0.0, 0.1, 0.2, 0.5]),
        min_utterance_length=st.sampled_from([0.0, 0.3]),
        max_relative_cost=st.sampled_from([0.0, 0.5, 1.0, float("inf")]),
    )
    rules = Endpoint(data.draw(st.dictionaries(st.sampled_from("abc"), rule, min_size=1)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))

    def move(stream):
        return decoders[rng.integers(2)].restore(stream.save()) if rng.random() < 0.5 else stream

    found = followed(decoders[0].stream(endpoint=rules), log_probs, rng, most=4, moves=move)
    check_sentences(found, sentences(decoders[1], log_probs, rules), decoders[1], log_probs)


def sentences_of_the_oracle(most, boosted):
    decoders, one = on_both(SILENCE), boost(1) if boosted else None
    wanted = sentences(decoders[1], SPEECH, RULES, one)
    assert {name for *_, name in wanted} >= {"pause", "end"} and len(wanted) > 4
    found = followed(decoders[0].stream(boost=one, endpoint=RULES), SPEECH, np.random.default_rng(2), most)
    check_sentences(found, wanted, decoders[1], SPEECH, one)


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("most", [2, 200])
def test_sentences_are_those_of_the_oracle(gpu, most, boosted):
    sentences_of_the_oracle(most, boosted)


def sentences_that_move():
    decoders, rng, one = on_both(SILENCE), np.random.default_rng(3), boost(1)
    waited = []

    def move(stream):
        waited.append((stream._decoder.device, stream.num_waiting > 0))
        moved = decoders[rng.integers(2)].restore(stream.save(), boost=one)
        assert (moved.num_waiting, moved.is_finished) == (stream.num_waiting, stream.is_finished)
        assert moved.save() == stream.save()
        return moved

    found = followed(decoders[0].stream(boost=one, endpoint=RULES), SPEECH, rng, 12, move)
    check_sentences(found, sentences(decoders[1], SPEECH, RULES, one), decoders[1], SPEECH, one)
    assert len(set(waited)) == 4


@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED])
def test_sentences_that_move(gpu, room):
    gpu.begin_with(room)
    sentences_that_move()


def company():
    """Rounds of many streams, some without rules, some with a boost, some of which have stopped."""
    decoders, rng = on_both(SILENCE), np.random.default_rng(4)
    boosts = [boost(i) if i % 2 else None for i in range(5)]
    speech = [np.roll(SPEECH, 20 * i, axis=0)[:70] for i in range(5)]
    streams = [
        [decoder.stream(boost=one, endpoint=RULES if i else None) for i, one in enumerate(boosts)]
        for decoder in decoders
    ]
    for at in range(0, 70, 10):
        chunks = [one[at : at + 10] for one in speech]
        found, wanted = (
            decoder.decode_chunks(own, chunks, last=at == 60) for decoder, own in zip(decoders, streams, strict=True)
        )
        assert list(map(seen, found)) == list(map(seen, wanted))
        for mine, other in zip(*streams, strict=True):
            assert (mine.num_waiting, mine.partial.endpoint) == (other.num_waiting, other.partial.endpoint)
            if mine.partial.endpoint and not mine.is_finished and rng.random() < 0.6:
                assert seen(mine.reset()) == seen(other.reset())
    assert sum(stream.partial.first_frame > 0 for stream in streams[0]) > 2


def test_streams_in_company(gpu):
    gpu.begin_with(TIGHT)
    company()


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_frames_on_a_gpu_wait_as_copies(gpu, kind):
    decoders = on_both(SILENCE)
    memory = SPEECH[: len(SPEECH) // 2][::-1].astype(kind)  # the last row comes first
    gpu.fake.lend("memory", memory.ctypes.data, memory.nbytes)
    on_host = memory[::-1].copy()
    streams = [decoder.stream(endpoint=RULES) for decoder in decoders]
    for decoder, stream, array in zip(decoders, streams, (DeviceArray(memory[::-1]), on_host), strict=True):
        decoder.decode_chunks([decoder.stream(), stream], [array, array])
    memory[:] = np.nan
    assert streams[0].num_waiting == streams[1].num_waiting > 0
    while streams[1].partial.endpoint:
        assert seen(streams[0].reset()) == seen(streams[1].reset())
    assert streams[0].save() == streams[1].save()


def test_the_next_sentence_may_have_another_boost(gpu):
    gpu.begin_with(TIGHT)
    decoder, cpu = on_both(SILENCE)
    stream = decoder.stream(boost=boost(0))
    for other in (None, boost(1), None):
        final = stream.decode_chunk(BATCH[0], last=True)
        [whole] = cpu.decode([BATCH[0]], boost=stream.boost)
        assert (final.arcs.tobytes(), final.score) == (whole.arcs.tobytes(), whole.score)
        stream.reset(boost=other)
    assert stream.num_frames == 3 * len(BATCH[0])
    with pytest.raises(ValueError, match="keep_history: expected False, because the decoder has no large language"):
        stream.reset(keep_history=True)


def test_forged_states_are_refused_or_decoded_alike(gpu):
    """Checksums are made to fit; what gets through is decoded with, on both engines."""
    gpu.begin_with(TIGHT)
    decoders = on_both(SILENCE)
    stream = decoders[0].stream(endpoint=RULES)
    stream.decode_chunk(SPEECH[42:50])
    data = stream.save()
    assert stream.partial.endpoint is None
    rng, outcomes = random.Random(0), set()
    of_search = {name: place for name, place in sealing.sections(data).items() if name in stream_state.SEARCH}
    for _ in range(150):
        offset, size = rng.choice(list(of_search.values()))
        number = rng.choice((rng.randrange(40), rng.getrandbits(32), 0xFFFFFFFF))
        mutant = sealing.reseal(sealing.poke(data, offset + rng.randrange(0, size - 3, 4), struct.pack("<I", number)))
        found = []
        for decoder in decoders:
            try:
                restored = decoder.restore(mutant)
            except ValueError as error:
                found.append(str(error))
            else:
                restored.decode_chunk(SPEECH[50:53])
                found.append((seen(restored.finish()), restored.save()))
        assert found[0] == found[1]
        outcomes.add(type(found[0]))
    assert outcomes == {str, tuple}


def test_damaged_states_are_refused(gpu):
    decoder, _ = on_both()
    stream = decoder.stream()
    stream.decode_chunk(BATCH[0][:3])
    data = stream.save()
    for at in range(0, len(data), 7):
        with pytest.raises(ValueError, match="stream state"):
            decoder.restore(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])


def test_a_state_goes_on_from_what_waits_for_the_device(gpu):
    """A restored search is sent with its first chunk, and saved before that all the same."""
    decoder, cpu = on_both()
    stream = cpu.stream()
    stream.decode_chunk(BATCH[5][:20])
    _, saved = stream_state.read(stream.save(), decoder, None)
    state = decoder._engine.new_stream(None, None, None, saved)
    assert (state.has_begun, state.frames) == (False, 20)
    found, wanted = state.search(), stream._state.search()
    assert state.has_begun
    assert {name: np.asarray(value).tobytes() for name, value in found.items()} == {
        name: np.asarray(value).tobytes() for name, value in wanted.items()
    }


def test_little_memory(gpu):
    """Where there is none for a state, or for what endpoints need, nothing else is lost."""
    decoder, cpu = on_both(SILENCE)
    before = decoder.memory().graph
    stream = cpu.stream(endpoint=RULES)
    stream.decode_chunk(SPEECH[42:50])
    data = stream.save()
    for _ in range(8):
        gpu.fake.fail("allocate", 2, 1)
    with pytest.raises(CudaOutOfMemoryError):
        decoder.restore(data)
    gpu.fake.allow()
    moved = decoder.restore(data)
    assert moved.save() == data
    assert decoder.memory().graph >= before + SILENCE.columns.nbytes
    assert decoder.memory().streams == moved._state.nbytes > 0
    assert seen(moved.finish()) == seen(stream.finish())


@pytest.mark.parametrize("room", [sanitized.TIGHT, sanitized.ROOM])
def test_what_runs_under_the_sanitizers(gpu, room):
    gpu.begin_with(room)
    sanitized.streams()
