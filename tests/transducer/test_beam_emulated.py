"""The kernels of beam search on a GPU: the CPU engine's bytes, whatever the schedule, the kernel and its launch."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import TransducerDecoder, UnsupportedError
from arcbeam.gpu.tuned import transducer_plan
from tests.hypothesis_examples import examples
from tests.simt.build import POLICIES, schedules
from tests.transducer import test_loop_emulated as loop
from tests.transducer.emulated_gpu import Shape, check_blocks_apart, check_interrupted, scheduled
from tests.transducer.equality import lists_as_bytes
from tests.transducer.networks import NETWORKS, cases
from tests.transducer.test_loop_emulated import BATCH, fitting, small

ROOMY = {"beam_rooms": lambda frames, hypotheses: (256, 4096, 512, 128)}
TIGHT = {"beam_rooms": lambda frames, hypotheses: (8 * hypotheses, 64, 2 * hypotheses, hypotheses)}


def options_of(kind, **more):
    return loop.options_of(kind, **{"beam": 3.0, "max_hypotheses": 4, **more})


def on_gpu(arrays, frames, shape=None, schedule=None, figures=None, **options):
    """What a decoder on the GPU makes of frames under a schedule, as bytes, and how many launches it took."""
    with scheduled(schedule, shape, **(figures or {})) as gpu:
        return lists_as_bytes(listed(arrays, frames, device="cuda", **options)), len(gpu.launches)


def listed(arrays, frames, errors="raise", boost=None, **options):
    """The whole n-best lists of a decoder that is gone then."""
    decoder = TransducerDecoder.from_arrays(arrays, **options)
    return decoder.decode(frames, nbest=decoder.options.max_hypotheses, errors=errors, boost=boost)


def check(arrays, frames, shape=None, schedule=None, figures=None, **options):
    """Decodes on both: all bytes are the same. Gives the CPU's hypotheses and the number of launches."""
    wanted = listed(arrays, frames, device="cpu", threads=1, **options)
    found, launches = on_gpu(arrays, frames, shape, schedule, figures, **options)
    for i, (one, other) in enumerate(zip(found, lists_as_bytes(wanted), strict=True)):
        assert one == other, f"utterance {i}"
    return wanted, launches


def check_refused(arrays, frames, shape=None, decoded=listed, **options):
    """Decodes on both what some utterances, not all, are refused for: the same errors and bytes. Gives what both find.

    decoded : `listed`, or what takes the same
    """
    wanted = decoded(arrays, frames, "return", device="cpu", **options)
    with scheduled(shape=shape):
        found = decoded(arrays, frames, "return", device="cuda", **options)
    assert [str(one.error) for one in found] == [str(one.error) for one in wanted]
    assert any(one.error for one in found) and not all(one.error for one in found)
    assert lists_as_bytes(found) == lists_as_bytes(wanted)
    return found, wanted


SHAPES = st.builds(
    Shape,
    kernel=st.sampled_from(["kept", "many"]),
    blocks=st.integers(1, 4),
    threads=st.sampled_from([32, 64, 96]),
    most_tests=st.integers(1, 40),
    widest_window=st.sampled_from([1, 2, 8]),
    teams=st.integers(1, 4),
    joins_alone=st.booleans(),
).map(fitting)
SEARCHES = st.fixed_dictionaries(
    {
        "beam": st.sampled_from([0.5, 2.0, 6.0, math.inf]),
        "max_hypotheses": st.sampled_from([1, 2, 3, 8]),
        "merge": st.sampled_from(["sum", "max"]),
        "length_power": st.sampled_from([0.0, 0.5]),
    }
)


@settings(max_examples=examples(40))
@given(cases(), SHAPES, SEARCHES, st.sampled_from(POLICIES), st.booleans())
def test_random_networks(case, shape, search, policy, sure):
    arrays, options, frames = case
    confidence = "entropy" if sure and arrays["embedding"].shape[-2] > 1 else None
    check(arrays, frames, shape, {"policy": policy}, **options, **search, confidence=confidence)


@settings(max_examples=examples(20))
@given(cases(), st.lists(SHAPES, min_size=2, max_size=2), SEARCHES, st.sampled_from(POLICIES))
def test_random_networks_in_bfloat16(case, shapes, search, policy):
    """Two launches give the same bytes, the first utterance also when it is alone."""
    arrays, options, frames = case
    options = {**options, **search, "precision": "bfloat16"}
    one, _ = on_gpu(arrays, frames, shapes[0], {"policy": policy}, **options)
    other, _ = on_gpu(arrays, frames, shapes[1], **options)
    alone, _ = on_gpu(arrays, frames[:1], shapes[1], **options)
    assert one + one[:1] == other + alone


@pytest.mark.parametrize(
    ("kind", "kernel"), [("rnnt", "kept"), ("stateless", "many"), ("tdt", "many"), ("tdt", "kept")]
)
def test_schedules(kind, kernel):
    frames = [BATCH[2], BATCH[0][:3]]
    for schedule in schedules():
        found, _ = check(small(kind), frames, Shape(kernel, blocks=2), schedule, **options_of(kind, max_symbols=2))
    assert sum(len(one.nbest) for one in found) > 5


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_rooms_grow(kind, kernel):
    """Rooms that grow redo the frame; one launch is enough where there is room."""
    arrays, options = small(kind), options_of(kind, beam=math.inf)
    found, launches = check(arrays, BATCH, Shape(kernel), figures=TIGHT, **options)
    assert launches > 3
    assert max(len(entry.tokens) for one in found for entry in one.nbest) > 3
    assert check(arrays, BATCH, Shape(kernel), figures=ROOMY, **options)[1] == 2


@pytest.mark.parametrize("most", [31, 32])
def test_a_hypothesis_for_each_thread_of_a_warp(most):
    found, _ = check(small("tdt"), BATCH[:1], **options_of("tdt", beam=math.inf, max_hypotheses=most))
    assert len(found[0].nbest) == most


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_hypotheses": 33}, "max_hypotheses up to 32, and it is 33"),
        ({"durations": [0, 1, 2, 65]}, "durations up to 64 frames, and the longest is 65"),
    ],
)
def test_what_a_gpu_does_not_take(options, said):
    with scheduled(), pytest.raises(UnsupportedError, match=said):
        TransducerDecoder.from_arrays(small("tdt"), device="cuda", **options_of("tdt", **options))


@pytest.mark.parametrize("durations", [[0, 0, 1, 1], [1, 2, 4, 64], [3, 2, 1, 0]])
def test_durations(durations):
    check(small("tdt"), BATCH, **options_of("tdt", durations=durations, beam=6.0))


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_half_precision_input_and_ties(kernel):
    arrays = small("rnnt")
    arrays["output_weight"][2:5] = arrays["output_weight"][1]
    arrays["output_bias"][2:5] = arrays["output_bias"][1]
    check(arrays, [x.astype(np.float16) for x in BATCH], Shape(kernel), **options_of("rnnt", max_hypotheses=8))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", transducer_plan.THREADS)
def test_blocks_of_as_many_threads_as_are_launched(kernel, precision):
    options = options_of("rnnt", precision=precision, max_symbols=2)
    frames, shape = [BATCH[2], BATCH[0][:3]], Shape(kernel, blocks=2)
    few, _ = on_gpu(small("rnnt"), frames, shape, **options)
    for schedule in schedules(2):
        many = replace(shape, threads=transducer_plan.THREADS[kernel])
        assert on_gpu(small("rnnt"), frames, many, schedule, **options)[0] == few


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_frames_and_logits_that_are_not_finite(kernel):
    frames = [x.copy() for x in BATCH]
    frames[0][4, 3] = frames[0][6, 1] = np.inf
    frames[3][2, 5] = np.nan
    good, bad = small("tdt"), small("rnnt")
    bad["output_weight"][5] = 3e38
    for arrays, batch, options in (
        (good, frames, options_of("tdt")),
        (bad, BATCH, options_of("rnnt", activation="relu")),
    ):
        check_refused(arrays, batch, Shape(kernel), **options)


def four_best(decoder):
    return lists_as_bytes(decoder.decode(BATCH, nbest=4))


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_the_host_can_end_it(kernel):
    check_interrupted(small("rnnt"), four_best, Shape(kernel), figures=ROOMY, **options_of("rnnt"))


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_blocks_that_do_not_all_run(kernel):
    check_blocks_apart(small("rnnt"), four_best, Shape(kernel), 10**5, **options_of("rnnt"))


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_the_demo_s_model(demo_data, kernel):
    """A trained TDT from its file, and speech in float16."""
    with np.load(demo_data / "encoder_output.npz") as file:
        shortest = sorted(file.values(), key=len)[:2]
    arrays, shape = demo_data / "transducer.npz", Shape(kernel, blocks=8)
    written, launches = check(arrays, shortest, shape, confidence="entropy", beam=4.0)
    assert [one.text for one in written] == ["ten of clubs", "seven offlubs"]
    assert launches == 2
