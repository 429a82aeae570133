"""The transducer engine on a GPU, host side and kernels, without one: its results are the CPU engine's bytes."""

import gc
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import CapacityError, CudaError, CudaOutOfMemoryError, TransducerDecoder, UnsupportedError
from arcbeam.gpu import _cuda
from arcbeam.gpu.tuned import transducer_plan
from tests.batching.stand_ins import ended_by_a_batcher
from tests.cuda_host.forks import told_in_a_child
from tests.decode.emulated_gpu import DeviceArray, unreadable
from tests.gpu import sanitized_transducers
from tests.transducer.equality import as_bytes, same
from tests.transducer.networks import NETWORKS, random_arrays, random_frames

BATCH = [random_frames(i, n) for i, n in enumerate((5, 0, 9, 1, 7))]


def make(device, kind="rnnt", **options):
    arrays = random_arrays(8, blank_bias=0.5, **NETWORKS[kind])
    durations = [0, 1, 2, 5] if "durations" in NETWORKS[kind] else None
    more = {"max_symbols": 2, "confidence": "entropy", **options}
    return TransducerDecoder.from_arrays(arrays, 0, durations=durations, device=device, **more)


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_same_bytes(gpu, kind):
    wanted = make("cpu", kind).decode(BATCH)
    assert sum(len(one.tokens) for one in wanted) > 5
    decoder = make("cuda", kind)
    assert decoder.device == "cuda:0"
    same(decoder.decode(BATCH), wanted)
    chosen = transducer_plan.loop_shapes(len(BATCH), "float32", "durations" in NETWORKS[kind])[0]
    assert gpu.ran[:2] == [("project", 3, 256, 0), (chosen.kernel, 3, chosen.threads, 1)]
    same(decoder.decode([]), [])
    again = pickle.loads(pickle.dumps(decoder))
    assert again.device == "cuda:0"
    same(again.decode(BATCH), wanted)
    without = make("cuda", kind, confidence=None).decode(BATCH)
    assert without[0].confidence is None
    same(without, make("cpu", kind, confidence=None).decode(BATCH))


@pytest.mark.parametrize("kind", NETWORKS)
def test_many_utterances(gpu, monkeypatch, kind):
    plan = dict.fromkeys(transducer_plan.PLAN, ((2, "kept", 4, 8, 1), (transducer_plan.ANY, "many", 4, 8, 1)))
    monkeypatch.setattr(transducer_plan, "PLAN", plan)
    monkeypatch.setattr(transducer_plan, "MOST_LANES", 4)
    batch = [random_frames(i, n) for i, n in enumerate((3, 8, 0, 1, 5, 2, 2, 4, 1))]
    same(make("cuda", kind).decode(batch), make("cpu", kind).decode(batch))
    assert [launch[0] for launch in gpu.ran] == ["project", "many", "project", "many", "kept"]
    monkeypatch.setattr(transducer_plan, "MOST_FRAMES", 8)
    gpu.launches.clear()
    same(make("cuda", kind).decode(batch), make("cpu", kind).decode(batch))
    assert len(gpu.launches) > 8


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_frames_that_blocks_round_together(gpu, monkeypatch, dtype):
    batch = [x.astype(dtype) for x in BATCH]
    wanted = make("cuda", precision="bfloat16").decode(batch)
    assert sum(len(one.tokens) for one in wanted) > 5
    monkeypatch.setattr(transducer_plan, "STAGED_GROUPS", 1)
    same(make("cuda", precision="bfloat16").decode(batch), wanted)


def test_a_child_forked_while_another_thread_decodes_is_told(gpu):
    # The first launch makes projections; once the second is there the thread waits for the device.
    assert told_in_a_child(make("cuda"), BATCH, gpu.fake, launched=lambda: len(gpu.launches) // 2)


MANY = transducer_plan.LoopShape("many", 256, 256, 4, 8)
SHAPES = {
    "kept, one test": transducer_plan.LoopShape("kept", 256, 1, 1, 1, joins_alone=True),
    "many, narrow": transducer_plan.LoopShape("many", 96, 1, 3, 5),
    "crowd": transducer_plan.LoopShape("many", 256, 512, 2, 4),
    "kept": transducer_plan.LoopShape("kept", 96, 1, 3, 5),
    "kept, teams": transducer_plan.LoopShape("kept", 96, 1, 3, 5, teams=3),
}


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_that_are_given(gpu, monkeypatch, kind, shape):
    monkeypatch.setattr(transducer_plan, "loop_shapes", lambda *_: (SHAPES[shape], MANY))
    same(make("cuda", kind).decode(BATCH), make("cpu", kind).decode(BATCH))
    requested = SHAPES[shape]
    assert gpu.ran == [("project", 3, 256, 0), (requested.kernel, 3, requested.threads, 1)]


BFLOAT16_SHAPES = {
    "kept, joins alone": transducer_plan.LoopShape("kept", 512, 8, 8, 16, joins_alone=True),
    "kept": transducer_plan.LoopShape("kept", 512, 256, 4, 8),
    "crowd": transducer_plan.LoopShape("kept", 512, 512, 2, 4),
    "many": MANY,
    "narrow": transducer_plan.LoopShape("kept", 96, 1, 3, 5),
    "teams": transducer_plan.LoopShape("kept", 512, 256, 4, 8, teams=2),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_bfloat16(gpu, monkeypatch, kind):
    """The same bytes in any shape and in chunks; the tokens of the CPU, whose sums are in another order."""
    arrays = random_arrays(8, blank_bias=0.5, units=21, joint=37, features=40, **NETWORKS[kind])
    durations = [0, 1, 2, 5] if "durations" in NETWORKS[kind] else None
    options = {"max_symbols": 2, "confidence": "entropy", "durations": durations, "precision": "bfloat16"}
    batch = [random_frames(i, n, 40) for i, n in enumerate((5, 0, 9, 1, 7))]
    wanted = TransducerDecoder.from_arrays(arrays, 0, device="cpu", **options).decode(batch)
    decoder = TransducerDecoder.from_arrays(arrays, 0, device="cuda", **options)
    found = decoder.decode(batch)
    chosen = transducer_plan.loop_shapes(len(batch), "bfloat16", durations is not None)[0]
    assert gpu.ran == [("project", 6, 256, 0), (chosen.kernel, 3, chosen.threads, 1)]
    assert sum(len(one.tokens) for one in wanted) > 5
    for one, other in zip(found, wanted, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.frames.tolist() == other.frames.tolist()
        assert durations is None or one.durations.tolist() == other.durations.tolist()
        np.testing.assert_allclose(one.log_probs, other.log_probs, rtol=0, atol=0.02)
        np.testing.assert_allclose(one.state.hidden, other.state.hidden, rtol=0, atol=0.01)
        np.testing.assert_allclose(one.state.cell, other.state.cell, rtol=0, atol=0.01)
        assert one.state.context.tolist() == other.state.context.tolist()
    for shape in BFLOAT16_SHAPES.values():
        with monkeypatch.context() as patch:
            patch.setattr(transducer_plan, "loop_shapes", lambda *_, shape=shape: (shape,))
            other = TransducerDecoder.from_arrays(arrays, 0, device="cuda", **options)
            same(other.decode(batch[:3][::-1]), found[:3][::-1])
    first = decoder.decode([x[:4] for x in batch])
    second = decoder.decode([x[4:] for x in batch], state=[one.state for one in first])
    for one, other, whole in zip(first, second, found, strict=True):
        assert one.tokens.tolist() + other.tokens.tolist() == whole.tokens.tolist()
        assert one.log_probs.tobytes() + other.log_probs.tobytes() == whole.log_probs.tobytes()
        assert other.state.hidden.tobytes() == whole.state.hidden.tobytes()
        assert other.state.cell.tobytes() == whole.state.cell.tobytes()


def test_groups():
    frames = np.array([5, 3, 3, 1, 0, 0])
    assert transducer_plan.groups(frames, 10) == [(0, 6)]
    assert transducer_plan.groups(frames, 4) == [(0, 4), (4, 6)]
    assert transducer_plan.groups(np.array([1 << 21, 1 << 19, 1 << 19, 1]), 4) == [(0, 1), (1, 3), (3, 4)]
    assert transducer_plan.groups(np.array([], np.int64), 4) == []


def test_chunks(gpu):
    for kind in NETWORKS:
        whole, decoder = make("cpu", kind).decode([BATCH[2]]), make("cuda", kind)
        state, tokens, places = None, [], []
        for chunk in (BATCH[2][:4], BATCH[2][4:4], BATCH[2][4:5], BATCH[2][5:]):
            [found] = decoder.decode([chunk], state=[pickle.loads(pickle.dumps(state))])
            state = found.state
            tokens += found.tokens.tolist()
            places += found.frames.tolist()
        assert (tokens, places) == (whole[0].tokens.tolist(), whole[0].frames.tolist())
        assert as_bytes([found])[0][1] == as_bytes(whole)[0][1]
        mixed = [state, None, None, state, None]
        same(decoder.decode(BATCH, state=mixed), make("cpu", kind).decode(BATCH, state=mixed))
        far = type(state)(state.hidden, state.cell, state.context, 2**40, 7)
        same(decoder.decode(BATCH[:1], state=[far]), make("cpu", kind).decode(BATCH[:1], state=[far]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_arrays_on_the_device_are_not_copied(gpu, dtype):
    batch = np.stack([random_frames(i, 6) for i in range(3)]).astype(dtype)
    wanted = make("cpu").decode(batch, [6, 0, 4])
    decoder = make("cuda")
    same(decoder.decode(DeviceArray(batch), [6, 0, 4], cuda_stream=2), wanted)
    apart = np.concatenate([batch, batch], axis=-1)[..., :7]  # rows that lie apart
    same(decoder.decode(DeviceArray(apart), [6, 0, 4]), wanted)
    assert decoder.memory().encoder_output == 0
    same(decoder.decode(apart, [6, 0, 4]), wanted)
    memory = decoder.memory()
    assert min(memory.weights, memory.encoder_output, memory.projected, memory.hypotheses, memory.pinned) > 0
    assert memory.device_bytes > decoder.nbytes == memory.weights
    with pytest.raises(ValueError, match=r"encoder_output: expected \[batch, frames, features\]"):
        decoder.decode(DeviceArray(batch[0, 0]))
    with pytest.raises(TypeError, match=r"encoder_output\[1\]: expected an array on cuda:0, got one in CPU memory"):
        decoder.decode([DeviceArray(batch[0]), batch[1]])
    with pytest.raises(ValueError, match="cuda_stream: expected None, because encoder_output"):
        decoder.decode(batch, cuda_stream=2)


def test_memory_that_kernels_cannot_read(gpu):
    gpu.start(devices=2)
    decoder, frames = make("cuda"), random_frames(1, 6)
    for array, said in unreadable(gpu.fake, frames):
        with pytest.raises(ValueError, match=rf"encoder_output\[0\]: expected .*{said}"):
            decoder.decode([array])
    for array, said in unreadable(gpu.fake, frames[None]):
        with pytest.raises(ValueError, match=f"encoder_output: expected .*{said}"):
            decoder.decode(array)
    with pytest.raises(ValueError, match="cuda_stream: expected a stream of cuda:0, where the decoder is, got the"):
        decoder.decode([DeviceArray(frames)], cuda_stream=0x7777)
    assert gpu.launches == []
    rows = [frames, frames[::-1], np.broadcast_to(frames[:1], frames.shape)]
    same(decoder.decode([DeviceArray(array) for array in rows]), make("cpu").decode([np.array(row) for row in rows]))


def test_auto_takes_the_gpu_if_it_can(gpu):
    assert make("auto").device == "cuda:0"
    many = random_arrays(1, layers=9, units=3)
    with pytest.warns(UserWarning, match=r'"auto" decodes on the CPU, because .* at most 8 LSTM .* has 9;') as told:
        assert TransducerDecoder.from_arrays(many, 0, device="auto").device == "cpu"
    assert [w.filename for w in told] == [__file__]
    with pytest.raises(ValueError, match="layers: expected at most 8"):
        TransducerDecoder.from_arrays(many, 0, device="cuda")
    assert make("auto", beam=4).device == "cuda:0"
    with pytest.warns(UserWarning, match=r'"auto" decodes on the CPU, because a GPU takes max_hypotheses up to 32'):
        assert make("auto", beam=4, max_hypotheses=33).device == "cpu"
    assert make("auto", beam=4, ilm_scale=0.2).device == "cuda:0"
    with pytest.raises(
        UnsupportedError, match=r'^device: expected "cpu", because .* up to 32, and .* 33; got \'cuda\''
    ):
        make("cuda", beam=4, max_hypotheses=33)
    gpu.start()
    gpu.fake.library.fake_device(0, 7, 5, 1)
    with pytest.warns(UserWarning, match=r"there is a GPU that cannot be used.* compute capability 7\.5"):
        assert make("auto").device == "cpu"
    with pytest.raises(CudaError, match=r"compute capability 7\.5"):
        make("cuda")


def test_contexts_that_do_not_fit(gpu):
    arrays = random_arrays(8, layers=0, context=60_000, size=1, units=1)
    with pytest.raises(ValueError, match="context: expected fewer tokens than 60000"):
        TransducerDecoder.from_arrays(arrays, 0, device="cuda").decode(BATCH)


def test_a_shape_that_does_not_fit(gpu, monkeypatch):
    """Only where somebody forces one: what is chosen ends with a kernel that needs no room for weights."""
    decoder = make("cuda")
    huge = transducer_plan.loop_shape("kept", 1 << 20, 1 << 10, 1 << 10, teams=4)
    monkeypatch.setattr(transducer_plan, "loop_shapes", lambda *_: (huge,))
    with pytest.raises(CapacityError, match=r"fits cuda:0, which has 3 blocks .*4 teams, .* needs 4 blocks.*CPU"):
        decoder.decode(BATCH)
    arrays = random_arrays(8, units=400, joint=40)
    one_team = transducer_plan.loop_shape("kept", 1, 1, 1)
    monkeypatch.setattr(transducer_plan, "loop_shapes", lambda *_: (one_team,))
    with pytest.raises(CapacityError, match=r"shared memory each: 'kept' of 1 teams, 1 tests needs [\d,]+ bytes"):
        TransducerDecoder.from_arrays(arrays, 0, device="cuda").decode(BATCH)
    monkeypatch.undo()


def test_weights_that_do_not_fit_shared_memory_are_streamed(gpu, monkeypatch):
    arrays = random_arrays(8, units=120, joint=40)
    monkeypatch.setattr(transducer_plan, "blocks", lambda multiprocessors: 1)
    wanted = TransducerDecoder.from_arrays(arrays, 0, device="cpu").decode(BATCH[:1])
    same(TransducerDecoder.from_arrays(arrays, 0, device="cuda").decode(BATCH[:1]), wanted)
    assert gpu.ran[-1][0] == "many"


def test_out_of_memory_costs_lanes_first(gpu):
    wanted, tried = make("cpu").decode(BATCH), set()
    for nth in range(1, 7):
        decoder = make("cuda")
        gpu.launches.clear()
        gpu.fake.fail("allocate", 2, nth)
        gpu.fake.fail("allocate", 2, nth)  # the second try, too
        same(decoder.decode(BATCH), wanted)
        tried.add(len(gpu.launches))
    assert tried == {2}  # half of the lanes are still enough for all


def test_out_of_memory_for_good(gpu):
    decoder = make("cuda")
    for _ in range(22):  # 1024 lanes to 1, each tried twice
        gpu.fake.fail("allocate", 2)
    with pytest.raises(CudaOutOfMemoryError, match=r"allocate .* bytes for the states of the batch"):
        decoder.decode(BATCH)
    same(decoder.decode(BATCH), make("cpu").decode(BATCH))


def test_every_call_of_a_decode_may_fail(gpu):
    decoder, wanted = make("cuda"), make("cpu").decode(BATCH[3:])
    errors = list(gpu.fake.failures(lambda: same(decoder.decode(BATCH[3:]), wanted)))
    assert len(errors) > 10 and {error.code for error in errors} == {803}
    same(decoder.decode(BATCH[3:]), wanted)


def test_every_call_of_making_a_decoder_may_fail(gpu):
    errors = list(gpu.fake.failures(lambda: make("cuda")))
    assert len(errors) > 40 and {error.code for error in errors} == {803}
    gc.collect()
    same(make("cuda").decode(BATCH), make("cpu").decode(BATCH))


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_pinned_memory_that_is_refused(gpu, monkeypatch, nth):
    """From some time on: encoder outputs and results go through pageable memory; what grows then is pinned again."""
    monkeypatch.setattr(transducer_plan, "first_room", lambda frames: 1)
    wanted = make("cpu").decode(BATCH)
    decoder = make("cuda")
    gpu.fake.refuse("host_allocate", nth=nth)
    with pytest.warns(UserWarning, match="the host does not pin .* the process waits for copies") as caught:
        got = decoder.decode(BATCH)
    assert len(caught) == 1
    same(got, wanted)
    states = [one.state for one in got]
    same(decoder.decode(BATCH, state=states), make("cpu").decode(BATCH, state=[one.state for one in wanted]))
    assert (decoder.memory().pinned > 0) == (nth > 1)
    lines = [line for line in gpu.fake.journal() if line[0] in ("launch", "to_host", "read")]
    assert ["to_host", "pageable"] in lines
    launches = [i for i, line in enumerate(lines) if line == ["launch"]]
    assert not any(lines[i + 1] == ["to_host", "pageable"] for i in launches), "which would wait for the kernel"
    gpu.fake.allow()
    same(decoder.decode([random_frames(9, 160)]), make("cpu").decode([random_frames(9, 160)]))
    assert decoder.memory().pinned > 0


def test_control_c(gpu):
    decoder, wanted = make("cuda"), make("cpu").decode(BATCH)
    same(decoder.decode(BATCH), wanted)
    with gpu.interrupted(), pytest.raises(KeyboardInterrupt):
        decoder.decode(BATCH)
    same(decoder.decode(BATCH), wanted)


def test_a_round_that_a_batcher_ends(gpu):
    decoder, speech = make("cuda"), random_frames(9, 30)
    stream = ended_by_a_batcher(decoder, speech, gpu.fake.library)
    assert stream.num_frames == 9, "it is as before"
    same([stream.decode_chunk(speech[9:], last=True)], make("cpu").decode([speech]))


def test_what_runs_under_the_sanitizers(gpu, monkeypatch, capsys):
    for name in ("loop_shapes", "beam_shapes", "first_room", "beam_rooms", "lattice_rooms", "STAGED_GROUPS"):
        monkeypatch.setattr(transducer_plan, name, getattr(transducer_plan, name))  # which it changes
    monkeypatch.setattr(transducer_plan, "PATIENCE_CYCLES", 10**7)  # for the block that no team has a place for
    monkeypatch.setattr(sanitized_transducers, "NETWORKS", sanitized_transducers.NETWORKS[1:2])
    monkeypatch.setattr(sys, "argv", ["", "--grow"])
    sanitized_transducers.main()
    assert capsys.readouterr().out.startswith("decoded 5 utterances")


def test_the_plan_of_a_beam():
    for has_durations, rows in transducer_plan.BEAM_PLAN.items():
        assert [row[0] for row in rows] == sorted({row[0] for row in rows}) and rows[-1][0] == transducer_plan.ANY
        for precision, teams in transducer_plan.BEAM_TEAMS.items():
            for utterances in (1, 2, 64, 1024):
                *kept, last = transducer_plan.beam_shapes(utterances, 8, precision, has_durations)
                each, widest = next(row[1:] for row in rows if utterances <= row[0])
                assert [shape.teams for shape in kept] == list(range(teams, 0, -1)) and last.kernel == "many"
                assert {shape.tests for shape in (*kept, last)} == {8 * utterances * each}
                assert {shape.widest_window for shape in (*kept, last)} == {widest}
                assert {shape.joins_alone for shape in kept} == {utterances * each == 1}


def test_the_plan():
    for (precision, has_durations), rows in transducer_plan.PLAN.items():
        assert [row[0] for row in rows] == sorted({row[0] for row in rows}) and rows[-1][0] == transducer_plan.ANY
        for utterances in (1, 2, 3, 64, 65, 1024):
            shapes = transducer_plan.loop_shapes(utterances, precision, has_durations)
            assert shapes[-1].kernel == "many"
            assert shapes[0].tests == min(
                transducer_plan.MOST_TESTS[shapes[0].kernel], utterances * shapes[0].first_window
            )


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("wrap", [DeviceArray, np.asarray])
def test_an_utterance_that_is_none_costs_itself_alone(gpu, kind, wrap):
    batch = [x.copy() for x in BATCH]
    batch[2][6, 3] = np.nan
    batch[4][0, 0] = np.inf
    cpu, decoder = make("cpu", kind), make("cuda", kind)
    states = None
    for _ in range(2):
        found = decoder.decode([wrap(x) for x in batch], state=states, errors="return")
        wanted = cpu.decode(batch, state=states, errors="return")
        same(found, wanted)
        assert [str(h.error) for h in found] == [str(h.error) for h in wanted]
        assert [h.complete for h in found] == [True, True, False, True, False]
        states = [h.state for h in found]
    assert found[0].state.frames == 2 * len(batch[0]) and found[2].state.frames == 0
    with pytest.raises(ValueError, match="got nan in utterance 2, frame 6, feature 3"):
        decoder.decode([wrap(x) for x in batch])


@pytest.mark.parametrize("wrap", [DeviceArray, np.asarray])
def test_nothing_is_decoded_while_a_graph_is_captured(gpu, monkeypatch, wrap):
    stream = SimpleNamespace(cuda_stream=2)
    cuda = SimpleNamespace(is_initialized=lambda: True, current_stream=lambda device: stream)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    decoder, batch = make("cuda"), [wrap(x) for x in BATCH]
    gpu.fake.library.fake_capture(2)
    with pytest.raises(CudaError, match="a CUDA graph is being captured: decode before the capture or after it"):
        decoder.decode(batch)
    gpu.fake.library.fake_end_capture()
    same(decoder.decode(batch), make("cpu").decode(BATCH))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_memory_is_given_back_and_grows_again(gpu, device):
    """That of batches; the weights stay."""
    decoder, wanted = make(device), make("cpu").decode(BATCH)
    before, living = decoder.memory(), gpu.fake.living("memory")
    free = _cuda.context_of(0).memory()[0]
    for _ in range(2):
        same(decoder.decode(BATCH), wanted)
        assert device == "cpu" or decoder.memory().device_bytes > before.device_bytes
        decoder.release()
        decoder.release()
        assert decoder.memory() == before
        assert gpu.fake.living("memory") == living
        assert gpu.fake.living("pinned") == 0
        assert _cuda.context_of(0).memory()[0] == free
    same(decoder.decode(BATCH), wanted)
