"""Streams that move between a CPU and a GPU, and end at endpoints there: under the emulator, the bytes of the CPU."""

import random
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, CudaOutOfMemoryError, Endpoint, EndpointRule
from arcbeam.ctc.streams import saved_lattice
from arcbeam.ctc.streams import state as stream_state
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.decode.endpoint_oracle import sentences
from tests.decode.equality import same
from tests.decode.moving import ASKED, agree, beside
from tests.decode.small_search import AS_SHIPPED, ROOMY
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH, check_sentences, followed
from tests.decode.test_stream_lattices_emulated import small_states
from tests.decode.test_stream_states import changed, with_moves
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import OPTIONS, answers, seen
from tests.gpu import sanitized
from tests.graph import sealing
from tests.hypothesis_examples import examples

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
LONG = EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=0.9)
few = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


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


def lattices_that_move(seed, boosted, batch=BATCH):
    """What streams are asked for moves with them, in the middle of sentences."""
    decoders = on_both(lattice_beam=4.0)
    boosts = [boost(i) if i % 3 else None for i in range(len(batch))] if boosted else None
    beside(decoders, batch, np.random.default_rng(seed), boosts)


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize(("room", "prune_above"), [(TIGHT, 0), (TIGHT, 64), (AS_SHIPPED, 1 << 12)])
def test_lattices_that_move(gpu, monkeypatch, room, prune_above, boosted):
    """States are pruned after every chunk, now and then, or never."""
    gpu.begin_with(room)
    small_states(monkeypatch, prune_above)
    lattices_that_move(1, boosted, [one[:24] for one in BATCH])


def states_of_all_chunks(one, lengths=(0, 1, 17, 64), **asked):
    for frames in lengths:
        states = set()
        for decoder in on_both():
            for chunk in (1, 9, 100):
                stream, company = decoder.stream(boost=one, **asked), decoder.stream(boost=boost(1))
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


@pytest.mark.parametrize("prune_above", [0, 64])
@pytest.mark.parametrize("one", [None, boost(0)])
def test_the_bytes_of_lattices_depend_on_the_frames_alone(gpu, monkeypatch, one, prune_above):
    gpu.begin_with(TIGHT)
    small_states(monkeypatch, prune_above)
    states_of_all_chunks(one, (0, 1, 17, 40), nbest=2)


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


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.data(),
    graphs.graphs(blank=3),
    graphs.log_probs(max_frames=16),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.sampled_from([0.0, 2.0, 99.0, float("inf")]),
    st.sampled_from([TIGHT, ROOMY]),
)
def test_lattices_of_any_graph(emulated_gpu, data, graph, log_probs, beam, lattice_beam, room):
    emulated_gpu.begin_with(room)
    emulated_gpu.monkeypatch.setattr(search_plan, "STREAM_PRUNE_ABOVE", data.draw(st.sampled_from([0, 8, 4096])))
    decoders = on_both(graph, beam=beam, lattice_beam=lattice_beam)
    rules = (
        Endpoint({"pause": EndpointRule(min_trailing_silence=0.2), "long": LONG}) if data.draw(st.booleans()) else None
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    beside(decoders, [log_probs], rng, most=4, endpoint=rules, asked=ASKED[:1])


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
        waited.append((stream._decoder.engine.stream is not None, stream.num_waiting > 0))
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


def lattices_of_sentences_that_move(speech=SPEECH):
    """Within sentences, and behind endpoints, where frames wait."""
    decoders, rng, one = on_both(SILENCE, lattice_beam=4.0), np.random.default_rng(3), boost(1)
    found, waited, _ = beside(decoders, [speech], rng, [one], 12, RULES, asked=ASKED[:1])
    assert waited > 0 and len(found[0]) > 3


@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED])
def test_lattices_of_sentences_that_move(gpu, room):
    gpu.begin_with(room)
    lattices_of_sentences_that_move(SPEECH[:90])


def lattices_of_dead_searches():
    decoders = on_both(lattice_beam=4.0)
    silent = np.full((4, BATCH[5].shape[1]), -np.inf, np.float32)
    speech = np.concatenate([BATCH[5][:12], silent, BATCH[5][12:20]])
    _, _, died = beside(decoders, [speech] * 4, np.random.default_rng(1))
    assert died > 3


def test_lattices_of_dead_searches(gpu):
    lattices_of_dead_searches()


def test_the_frames_of_a_dead_search_take_no_room(gpu):
    """Whether they came, or a state says so: each live frame alone has a step of the lattice."""
    gpu.begin_with(TIGHT)
    decoders = on_both(lattice_beam=4.0)
    rows = BATCH[5][:20].copy()
    rows[10:] = -np.inf
    streams = [decoder.stream(lattice=True) for decoder in decoders]
    silent = np.full((400, rows.shape[1]), -np.inf, np.float32)
    rooms = []
    for chunk in (rows, *[silent] * 30):
        for stream in streams:
            stream.decode_chunk(chunk)
        rooms.append(decoders[0].memory().streams)
    data, room = streams[0].save(), rooms[-1]
    assert rooms[2:] == [room] * 29
    assert streams[0].save() == streams[1].save()
    agree(*(stream.finish() for stream in streams))
    for frames in (2**31, 2**32 + 20, 2**53 - 1):
        forged = [decoder.restore(changed(data, frames=frames)) for decoder in decoders]
        assert decoders[0].memory().streams <= 3 * room
        assert forged[0].num_frames == frames and forged[0].save() == forged[1].save()
        agree(*(stream.decode_chunk(rows[:3]) for stream in forged))
        agree(*(stream.finish() for stream in forged))


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


@pytest.mark.parametrize("asked", [{}, {"nbest": 2, "lattice": True, "interim_answers": True}])
def test_forged_states_are_refused_or_decoded_alike(gpu, asked):
    """Checksums are made to fit; what gets through is decoded with, on both engines."""
    gpu.begin_with(TIGHT)
    decoders = on_both(SILENCE, lattice_beam=4.0)
    stream = decoders[0].stream(endpoint=RULES, **asked)
    stream.decode_chunk(SPEECH[42:50])
    data = stream.save()
    assert stream.partial.endpoint is None
    rng, outcomes = random.Random(0), set()
    searched = stream_state.SEARCH | (saved_lattice.GOES_ON if asked else {})
    of_search = {name: place for name, place in sealing.sections(data).items() if name in searched}
    for _ in range(300 if asked else 150):
        offset, size = rng.choice(list(of_search.values()))
        number = rng.choice((rng.randrange(40), rng.getrandbits(32), 0xFFFFFFFF, 0x3F800000, 0x40600000))
        mutant = sealing.reseal(sealing.poke(data, offset + rng.randrange(0, size - 3, 4), struct.pack("<I", number)))
        found = []
        for decoder in decoders:
            try:
                restored = decoder.restore(mutant)
            except ValueError as error:
                found.append(str(error))
            else:
                partials = restored.partial, restored.decode_chunk(SPEECH[50:53]), restored.finish()
                found.append(([(seen(one), answers(one)) for one in partials], restored.save()))
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


@pytest.mark.parametrize("asked", [{}, {"lattice": True}])
def test_a_state_goes_on_from_what_waits_for_the_device(gpu, asked):
    """A restored search is sent with its first chunk, and saved before that all the same."""
    decoder, cpu = on_both()
    stream = cpu.stream(**asked)
    stream.decode_chunk(BATCH[5][:20])
    _, saved, _ = stream_state.read(stream.save(), decoder._chunks, None)
    state = decoder._engine.new_stream(None, None, None, saved, decoder.options.lattice_beam if asked else None)
    assert (state.has_begun, state.frames) == (False, 20)
    found, wanted = (one.search(with_lattice=bool(asked)) for one in (state, stream._state))
    assert state.has_begun
    assert {name: np.asarray(value).tobytes() for name, value in found.items()} == {
        name: np.asarray(value).tobytes() for name, value in wanted.items()
    }


@pytest.mark.parametrize("asked", [{}, {"nbest": 2}])
def test_little_memory(gpu, asked):
    """Where there is none for a state, or for what endpoints need, nothing else is lost."""
    decoder, cpu = on_both(SILENCE)
    before = decoder.memory().graph
    stream = cpu.stream(endpoint=RULES, **asked)
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
    agree(moved.finish(), stream.finish())


@pytest.mark.parametrize("room", [sanitized.TIGHT, sanitized.ROOM])
def test_what_runs_under_the_sanitizers(gpu, room):
    gpu.begin_with(room)
    sanitized.streams()
