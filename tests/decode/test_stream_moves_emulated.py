"""Streams that move between a CPU and a GPU, and end at endpoints there: under the emulator, the bytes of the CPU."""

import random
import struct

import numpy as np
import pytest

from arcbeam import CtcDecoder, CudaOutOfMemoryError
from arcbeam.ctc.streams import saved_lattice
from arcbeam.ctc.streams import state as stream_state
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.decode.moving import REQUESTED, agree, one_state
from tests.decode.small_search import AS_SHIPPED
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH
from tests.decode.test_stream_lattices_emulated import small_states
from tests.decode.test_stream_states import changed
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import OPTIONS, answers, seen
from tests.decode.wholes import conform
from tests.gpu import sanitized
from tests.graph import sealing

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def on_both(graph=GRAPH, **options):
    return [CtcDecoder(graph, device=device, **OPTIONS | options) for device in ("cuda", "cpu")]


def boosts_of(batch, boosted):
    return [boost(i) if i % 3 else None for i in range(len(batch))] if boosted else None


def moves(seed, boosted, share=0.5):
    conform(on_both(), BATCH, np.random.default_rng(seed), boosts_of(BATCH, boosted), requested=[{}], share=share)


def lattices_that_move(seed, boosted, batch=BATCH, share=0.5):
    """The outputs of streams move with them, in the middle of sentences."""
    rng = np.random.default_rng(seed)
    conform(on_both(lattice_beam=4.0), batch, rng, boosts_of(batch, boosted), share=share)


def sentences_of_the_oracle(most, boosted, requested=({},), share=0.0):
    """Rounds of streams with rules, and of one without."""
    batch = [np.roll(SPEECH, 20 * i, axis=0)[: 140 - 30 * i] for i in range(3)]
    rng = np.random.default_rng(most)
    pairs = conform(
        on_both(SILENCE, lattice_beam=4.0), batch, rng, boosts_of(batch, boosted), most, RULES, requested, share=share,
        refused=0.1,
    )  # fmt: skip
    assert len(pairs[0].finals) > 4 and (share == 0.0 or sum(pair.waited for pair in pairs) > 0)


def sentences_that_move():
    sentences_of_the_oracle(12, True, share=0.5)


def company():
    sentences_of_the_oracle(25, True)


def lattices_of_sentences_that_move():
    """Within sentences, and after endpoints, where frames wait."""
    sentences_of_the_oracle(12, True, REQUESTED[:1], 0.5)


def lattices_of_dead_searches():
    silence = np.full((4, BATCH[5].shape[1]), -np.inf, np.float32)
    speech = np.concatenate([BATCH[5][:12], silence, BATCH[5][12:20]])
    pairs = conform(on_both(lattice_beam=4.0), [speech] * 4, np.random.default_rng(1))
    assert sum(pair.died for pair in pairs) > 3


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize(("room", "prune_above"), [(TIGHT, 0), (TIGHT, 64), (AS_SHIPPED, 1 << 12)])
def test_moves(gpu, monkeypatch, room, prune_above, boosted):
    """States are pruned after every chunk, now and then, or never."""
    gpu.begin_with(room)
    small_states(monkeypatch, prune_above)
    for share in (0.0, 0.5):
        moves(1, boosted, share)
        lattices_that_move(1, boosted, [one[:24] for one in BATCH], share)


def states_of_all_chunks(one, lengths=(0, 1, 17, 64), **requested):
    one_state(on_both(), BATCH[5], BATCH[3], lengths, boosts=(one, boost(1)), **requested)


@pytest.mark.parametrize(("requested", "prune_above"), [({}, 0), ({"nbest": 2}, 0), ({"nbest": 2}, 64)])
@pytest.mark.parametrize("one", [None, boost(0)])
def test_the_bytes_depend_on_the_frames_alone(gpu, monkeypatch, one, requested, prune_above):
    """Not on the engine, on chunks, on company with a boost, or on when logs are collected, or pruned."""
    gpu.begin_with(TIGHT)
    small_states(monkeypatch, prune_above)
    states_of_all_chunks(one, (0, 1, 17, 40), **requested)


@pytest.mark.parametrize(("room", "prune_above"), [(TIGHT, 64), (AS_SHIPPED, 1 << 12)])
@pytest.mark.parametrize(
    ("most", "requested", "share"), [(2, {}, 0.0), (200, {}, 0.5), (25, REQUESTED[0], 0.0), (12, REQUESTED[0], 0.5)]
)
def test_sentences(gpu, monkeypatch, room, prune_above, most, requested, share):
    gpu.begin_with(room)
    small_states(monkeypatch, prune_above)
    sentences_of_the_oracle(most, True, [requested], share)


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


@pytest.mark.parametrize("requested", [{}, {"nbest": 2, "lattice": True, "interim_answers": True}])
def test_forged_states_are_refused_or_decoded_alike(gpu, requested):
    """Checksums are made to fit; what gets through is decoded with, on both engines."""
    gpu.begin_with(TIGHT)
    decoders = on_both(SILENCE, lattice_beam=4.0)
    stream = decoders[0].stream(endpoint=RULES, **requested)
    stream.decode_chunk(SPEECH[42:50])
    data = stream.save()
    assert stream.partial.endpoint is None
    rng, outcomes = random.Random(0), set()
    searched = stream_state.SEARCH | (saved_lattice.GOES_ON if requested else {})
    of_search = {name: place for name, place in sealing.sections(data).items() if name in searched}
    for _ in range(300 if requested else 150):
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


@pytest.mark.parametrize("requested", [{}, {"lattice": True}])
def test_a_state_goes_on_from_what_waits_for_the_device(gpu, requested):
    """A restored search is sent with its first chunk, and saved before that all the same."""
    decoder, cpu = on_both()
    stream = cpu.stream(**requested)
    stream.decode_chunk(BATCH[5][:20])
    _, saved, _ = stream_state.read(stream.save(), decoder._search, None)
    state = decoder._search.engine.new_stream(
        None, None, None, saved, decoder.options.lattice_beam if requested else None
    )
    assert (state.has_begun, state.frames) == (False, 20)
    found, wanted = (one.search(with_lattice=bool(requested)) for one in (state, stream._state))
    assert state.has_begun
    assert {name: np.asarray(value).tobytes() for name, value in found.items()} == {
        name: np.asarray(value).tobytes() for name, value in wanted.items()
    }


@pytest.mark.parametrize("requested", [{}, {"nbest": 2}])
def test_little_memory(gpu, requested):
    """Where there is none for a state, or for what endpoints need, nothing else is lost."""
    decoder, cpu = on_both(SILENCE)
    before = decoder.memory().graph
    stream = cpu.stream(endpoint=RULES, **requested)
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
    sanitized.logits()
