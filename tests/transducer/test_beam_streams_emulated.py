"""Streams with a beam on a GPU: states, lists and errors have the bytes of the CPU, in any batch and launch."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import Batcher, InputError, TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.hypothesis_examples import examples
from tests.simt.build import POLICIES, schedules
from tests.transducer.beam_searches import DURATIONS, PREDICTIONS
from tests.transducer.beam_streams import Streams, assert_same_state, check_chunks, joined_chunks, state_bytes
from tests.transducer.emulated_gpu import Shape, scheduled
from tests.transducer.equality import as_bytes, lists_as_bytes
from tests.transducer.networks import NETWORKS, random_arrays, random_frames
from tests.transducer.test_beam_emulated import BATCH, ROOMY, SHAPES, TIGHT, check, options_of, small
from tests.transducer.test_beam_fusion import constant_network, drawn_models

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*no <unk>:UserWarning")


def check_streams(arrays, frames, seed, shape=None, schedule=None, figures=None, trees=None, **options):
    """Chunks on both, whose states move: all bytes are the same. Gives the states at the end and the launches."""
    twin = Streams(TransducerDecoder.from_arrays(arrays, device="cpu", threads=1, **options), len(frames), trees)
    with scheduled(schedule, shape, **(figures or {})) as gpu:
        other = Streams(TransducerDecoder.from_arrays(arrays, device="cuda", **options), len(frames), trees)
        states = check_chunks(twin, other, frames, seed)
        del other
        return states, len(gpu.launches)


@st.composite
def searches(draw):
    durations = draw(st.sampled_from([*DURATIONS, [0, 7], [64, 1]]))
    seed = draw(st.integers(0, 2**32 - 1))
    shape = {"tokens": draw(st.sampled_from([2, 3, 6, 40])), **draw(st.sampled_from(PREDICTIONS))}
    blank_bias, blank = draw(st.sampled_from([-1.0, 0.0, 2.0])), draw(st.sampled_from([0, shape["tokens"] - 1]))
    arrays = random_arrays(seed, durations=len(durations or ()), blank=blank, blank_bias=blank_bias, **shape)
    options = {
        "blank_id": blank,
        "durations": durations,
        "max_symbols": draw(st.sampled_from([1, 2, 10])),
        "beam": draw(st.sampled_from([0.5, 2.0, 6.0, math.inf])),
        "max_hypotheses": draw(st.sampled_from([1, 2, 4, 8])),
        "merge": draw(st.sampled_from(["sum", "max"])),
        "length_power": draw(st.sampled_from([0.0, 0.5])),
        "settle_frames": draw(st.sampled_from([None, 1, 2, 3, 8])),
        "confidence": draw(st.sampled_from([None, "entropy"])),
    }
    lengths = draw(st.lists(st.sampled_from([0, 1, 4, 9, 14]), min_size=1, max_size=4))
    return arrays, options, [random_frames(seed + i, n) for i, n in enumerate(lengths)], seed


@settings(max_examples=examples(30), deadline=None)
@given(searches(), SHAPES, st.sampled_from(POLICIES), st.sampled_from([ROOMY, {}, TIGHT]))
def test_random_searches(case, shape, policy, figures):
    arrays, options, frames, seed = case
    check_streams(arrays, frames, seed, shape, {"policy": policy}, figures, **options)


@pytest.mark.parametrize("which", ["n", "t", "l", "i", "ntli"])
@pytest.mark.parametrize("kind", ["rnnt", "tdt", "stateless"])
def test_models(kind, which, tmp_path):
    arrays, seed = small(kind), sum(map(ord, which + kind))
    given, tree, _ = drawn_models(tmp_path, seed, 6, 0, which)
    options = options_of(kind, **given, settle_frames=4 if kind == "tdt" else None)
    trees = None if tree is None else [None if i == 2 else tree for i in range(len(BATCH))]
    for kernel, figures in (("kept", TIGHT), ("many", {})):
        check_streams(arrays, BATCH, seed, Shape(kernel), figures=figures, trees=trees, **options)


@pytest.mark.parametrize("kind", NETWORKS)
def test_rooms_grow(kind):
    """Rooms that grow redo the frame, and what was restored is taken over."""
    options = options_of(kind, beam=math.inf, max_hypotheses=8)
    _, launches = check_streams(small(kind), BATCH, 3, Shape("many"), figures=TIGHT, **options)
    _, fewer = check_streams(small(kind), BATCH, 3, Shape("many"), figures=ROOMY, **options)
    assert launches > fewer


@pytest.mark.parametrize(("kind", "kernel"), [("rnnt", "kept"), ("stateless", "many"), ("tdt", "kept")])
def test_schedules(kind, kernel, tmp_path):
    given, tree, _ = drawn_models(tmp_path, 3, 6, 0, "ti")
    options = options_of(kind, max_symbols=2, settle_frames=3, **given)
    for schedule in schedules():
        check_streams(small(kind), [BATCH[0][:6], BATCH[2]], 5, Shape(kernel, blocks=2), schedule, **options)
        check_streams(small(kind), [BATCH[0][:4]], 1, Shape(kernel, blocks=2), schedule, trees=[tree], **options)


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_more_restored_predictions_than_tests_of_a_round(kernel):
    """Those of the internal language model take several rounds of tests before the first frame."""
    options = options_of("tdt", ilm_scale=0.25, max_hypotheses=2, beam=math.inf)
    for alone in (False, True) if kernel == "kept" else (False,):
        shape = Shape(kernel, most_tests=1, joins_alone=alone)
        twin = Streams(TransducerDecoder.from_arrays(small("tdt"), device="cpu", **options), 1)
        before, _ = twin.decode([BATCH[3][:6]], twin.begun, [0])
        assert len(before[0].arrays()["predicted"]) > 4  # two hypotheses, with and without an encoder
        check_streams(small("tdt"), [BATCH[3][:12]], 2, shape, **options)


@pytest.mark.parametrize("settle_frames", [1, 3, 9])
@pytest.mark.parametrize("kind", NETWORKS)
def test_labels_of_whole_utterances_settle_by_age(kind, settle_frames):
    options = options_of(kind, beam=math.inf, settle_frames=settle_frames)
    found, _ = check(small(kind), BATCH, Shape("many"), **options)
    without, _ = check(small(kind), BATCH, Shape("many"), **{**options, "settle_frames": None})
    assert settle_frames == 9 or lists_as_bytes(found) != lists_as_bytes(without)


def test_states_of_which_more_comes_back_than_was_expected():
    """The states are larger than the first guess, and are fetched once more."""
    arrays = random_arrays(2, units=150, tokens=5, blank_bias=-1.0)
    options = {"blank_id": 0, "beam": math.inf, "max_hypotheses": 4, "max_symbols": 2}
    states, _ = check_streams(arrays, [random_frames(1, 4)], 1, Shape("many"), **options)
    assert states[0].nbytes > 6000


@pytest.mark.parametrize("kind", ["rnnt", "tdt", "stateless"])
def test_bfloat16_in_any_batch_and_launch(kind):
    """The chunks of a batch give what those of each stream alone give, in another shape of a launch."""
    options = options_of(kind, precision="bfloat16", settle_frames=5)
    shapes = [Shape("many", blocks=2), Shape("kept", blocks=3, threads=96)]
    found = []
    for shape, apart in zip(shapes, (False, True), strict=True):
        with scheduled(shape=shape):
            one = TransducerDecoder.from_arrays(small(kind), device="cuda", **options)
            batches = [[rows] for rows in BATCH] if apart else [BATCH]
            found.append([state for batch in batches for state in joined_chunks(one, batch, 4)])
            del one
    for i, (state, other) in enumerate(zip(*found, strict=True)):
        assert_same_state(state, other, f"stream {i}")


def after_a_bad_chunk(arrays, chunk, errors, device, **options):
    """The error, and all that is known of two streams, of which the first was given such a chunk."""
    one = TransducerDecoder.from_arrays(arrays, device=device, **options)
    streams = [one.stream(nbest=3) for _ in range(2)]
    zeros = np.zeros((3, 7), np.float32)
    one.decode_chunks(streams, [zeros, zeros[:1]])
    before = streams[0].save()
    if errors == "raise":
        with pytest.raises(InputError) as raised:
            one.decode_chunks(streams, [chunk, zeros])
        said = str(raised.value)
    else:
        said = str(one.decode_chunks(streams, [chunk, zeros], errors="return")[0].error)
    assert streams[0].save() == before
    one.decode_chunks(streams, [zeros, zeros])
    return said, [stream.save() for stream in streams], as_bytes([stream.finish() for stream in streams])


@pytest.mark.parametrize("errors", ["raise", "return"])
def test_chunks_that_are_not_finite(errors):
    """The stream and the others of its batch go on as before, with the error of the CPU."""
    bad = BATCH[0][:4].copy()
    bad[2, 1] = np.nan
    large = np.full((2, 7), 3e38, np.float32)
    for chunk, kind, more in ((bad, "tdt", {}), (large, "rnnt", {"activation": "relu"})):
        options = options_of(kind, **more)
        wanted = after_a_bad_chunk(small(kind), chunk, errors, "cpu", **options)
        with scheduled():
            found = after_a_bad_chunk(small(kind), chunk, errors, "cuda", **options)
        assert found == wanted and "finite" in found[0]


def of_two(arrays, device, **options):
    return Streams(TransducerDecoder.from_arrays(arrays, device=device, **options), 2)


def test_an_internal_language_model_that_overflows():
    """An error where a history is tested, not where its prediction is restored; the others go on."""
    arrays, _ = constant_network([1.0, 0.0, 0.0], 1)
    arrays["encoder_weight"][:] = -1
    arrays["prediction_bias"] = np.full(1, 3e38, np.float32)
    arrays["output_weight"][:] = 2.0
    options = {"activation": "relu", "blank_id": 0, "beam": 4.0}
    plain = of_two(arrays, "cpu", **options)
    rows = np.full((2, 1), 3e38, np.float32)
    states, _ = plain.decode([rows, rows[:0]], plain.begun, [0, 1])
    assert len(states[0].arrays()["predicted"]) > 0
    told = []
    for device in ("cpu", "cuda"):
        with scheduled():
            left, found = of_two(arrays, device, ilm_scale=0.5, **options).decode([rows, rows[:0]], states, [0, 1])
            told.append([found, *map(state_bytes, left)])
    assert told[0] == told[1] and len(told[0][0][0][2]) == 1


def is_refused(one, state):
    with pytest.raises(ValueError, match=r"state: expected hypotheses up to frame 4 .*, got one on frame 5"):
        one.decode([BATCH[0]], [state], [0])


def test_a_state_whose_hypotheses_no_duration_has_brought():
    """Nor does a GPU have a place for them; it decodes other states afterwards."""
    with scheduled():
        one = Streams(TransducerDecoder.from_arrays(small("tdt"), device="cuda", **options_of("tdt")), 1)
        arrays = one.begun[0].arrays()
        arrays["arrivals"]["frame"] += 5
        is_refused(one, type(one.begun[0]).of_arrays(0, 0.0, 0, arrays))
        check_chunks(one, one, BATCH[:1], 1)
        del one


@pytest.mark.parametrize("kernel", transducer_plan.THREADS)
def test_blocks_of_as_many_threads_as_are_launched(kernel):
    shape = replace(Shape(kernel, blocks=2), threads=transducer_plan.THREADS[kernel])
    options = options_of("tdt", max_symbols=2, ilm_scale=0.25, settle_frames=2)
    check_streams(small("tdt"), [BATCH[0][:5], BATCH[2]], 3, shape, **options)


def of_a_batcher(device):
    one = TransducerDecoder.from_arrays(small("tdt"), device=device, **options_of("tdt", settle_frames=4))
    streams = [one.stream(nbest=4) for _ in BATCH]
    with Batcher(one, max_wait_ms=1) as batcher:
        futures = [batcher.submit(s, rows, last=True) for s, rows in zip(streams, BATCH, strict=True)]
        return as_bytes([future.result(60) for future in futures]), [stream.save() for stream in streams]


def test_streams_of_a_batcher():
    with scheduled(shape=Shape("many")):
        found = of_a_batcher("cuda")
    assert found == of_a_batcher("cpu")
