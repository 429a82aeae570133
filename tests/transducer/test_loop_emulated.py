"""The transducer kernels on a GPU: the CPU engine's bytes, whatever the schedule, the kernel and its launch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from arcbeam.transducer import ConfidenceMethod
from arcbeam.transducer._transducer import multiply
from arcbeam.transducer.decoder import FrameLoopingDecoder
from tests.hypothesis_examples import examples
from tests.simt.build import POLICIES, schedules
from tests.transducer.emulated_gpu import Shape, check_blocks_apart, check_interrupted, scheduled
from tests.transducer.equality import as_bytes, same
from tests.transducer.networks import NETWORKS, cases, random_arrays, random_frames

BATCH = [random_frames(i, n) for i, n in enumerate((9, 0, 1, 17))]
LOOPS = [TransducerDecoder, FrameLoopingDecoder]


def options_of(kind, **more):
    durations = [0, 1, 2, 5] if "durations" in NETWORKS[kind] else None
    return {"blank_id": 0, "durations": durations, "max_symbols": 3, "confidence": "entropy", **more}


def small(kind):
    """Weights of few units, of which a block has few."""
    return random_arrays(6, tokens=6, units=5, joint=133, blank_bias=-1.0, **NETWORKS[kind])


def on_gpu(arrays, frames, shape=None, schedule=None, given=None, loop=TransducerDecoder, **options):
    """What a decoder on the GPU makes of frames under a schedule, and how many launches it took.

    given : arguments of its `decode`
    """
    with scheduled(schedule, shape) as gpu:
        found = loop.from_arrays(arrays, device="cuda", **options).decode(frames, **given or {})
        return found, len(gpu.launches)


def check(arrays, frames, shape=None, schedule=None, given=None, loop=TransducerDecoder, **options):
    """Decodes on both: all bytes are the same. Gives the hypotheses and the number of launches."""
    wanted = loop.from_arrays(arrays, device="cpu", threads=1, **options).decode(frames, **given or {})
    found, launches = on_gpu(arrays, frames, shape, schedule, given, loop, **options)
    same(found, wanted)
    return wanted, launches


def projected(arrays, frames, schedule=None, **figures):
    """What the kernel writes that projects the frames of all utterances."""
    precision = figures.pop("precision", "float32")
    with scheduled(schedule, Shape(most_tests=96, first_window=16), **figures) as gpu:
        kept = gpu.keep_projected(sum(map(len, frames)), len(arrays["encoder_weight"]))
        TransducerDecoder.from_arrays(arrays, device="cuda", precision=precision, **options_of("rnnt")).decode(frames)
        return kept[0]


def in_order(frames):
    """As they go to a device, the longest first."""
    return np.concatenate(sorted(frames, key=len, reverse=True)).astype(np.float32)


@pytest.mark.parametrize("features", [39, 40])
@pytest.mark.parametrize("staged_from", [1, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_project_in_bfloat16(dtype, staged_from, features):
    arrays = random_arrays(4, joint=150, features=features, blank_bias=9.0)
    for name in ("encoder_weight", "encoder_bias"):  # so that sums are exact, whatever their order
        arrays[name] = np.rint(8 * arrays[name]).astype(np.float32) / 8
    lengths = (0, 1, 8, 39, 90, 3)
    frames = [np.rint(4 * random_frames(i, n, features)).astype(dtype) / dtype(4) for i, n in enumerate(lengths)]
    wanted = in_order(frames) @ arrays["encoder_weight"].T + arrays["encoder_bias"]
    for schedule in schedules(3):
        found = projected(arrays, frames, schedule, precision="bfloat16", STAGED_GROUPS=staged_from)
        assert np.array_equal(found, wanted)
    frames[4][88, 3] = frames[4][70, 38] = frames[4][70, 5] = np.inf
    with pytest.raises(ValueError, match="utterance 4, frame 70, feature 5"):
        projected(arrays, frames, precision="bfloat16", STAGED_GROUPS=staged_from)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("threads", [64, 256])
def test_project(dtype, threads):
    arrays = random_arrays(4, joint=45, features=39, blank_bias=9.0)
    frames = [random_frames(i, n, 78).astype(dtype)[:, :39] for i, n in enumerate((0, 1, 8, 19))]  # rows lie apart
    wanted = multiply(arrays["encoder_weight"], arrays["encoder_bias"], in_order(frames))
    for schedule in schedules(5):
        assert projected(arrays, frames, schedule, PROJECT_THREADS=threads).tobytes() == wanted.tobytes()
    frames[3][17, 3] = frames[3][9, 38] = frames[3][9, 5] = np.inf
    with pytest.raises(ValueError, match="utterance 3, frame 9, feature 5"):
        projected(arrays, frames, PROJECT_THREADS=threads)


def fitting(shape):
    """Teams, and blocks that join alone, are of one kernel."""
    if shape.kernel != "kept":
        return replace(shape, teams=1, joins_alone=False)
    return replace(shape, teams=min(shape.teams, shape.blocks))


SHAPES = st.builds(
    Shape,
    kernel=st.sampled_from(["kept", "many"]),
    blocks=st.integers(1, 4),
    threads=st.sampled_from([32, 64, 96]),
    most_tests=st.integers(1, 9),
    first_window=st.integers(1, 4),
    widest_window=st.integers(1, 9),
    room=st.integers(1, 3),
    teams=st.integers(1, 4),
    joins_alone=st.booleans(),
).map(fitting)


@settings(max_examples=examples(40))
@given(cases(), SHAPES, st.sampled_from(POLICIES), st.booleans(), st.sampled_from(LOOPS))
def test_random_networks(case, shape, policy, sure, loop):
    arrays, options, frames = case
    confidence = "entropy" if sure and arrays["embedding"].shape[-2] > 1 else None
    check(arrays, frames, shape, {"policy": policy}, loop=loop, **options, confidence=confidence)


@settings(max_examples=examples(40))
@given(cases(), st.lists(SHAPES, min_size=2, max_size=2), st.sampled_from(POLICIES))
def test_random_networks_in_bfloat16(case, shapes, policy):
    """Two launches give the same bytes, the first utterance also when it is alone."""
    arrays, options, frames = case
    options = {**options, "precision": "bfloat16"}
    one, _ = on_gpu(arrays, frames, shapes[0], {"policy": policy}, **options)
    other, _ = on_gpu(arrays, frames, shapes[1], **options)
    alone, _ = on_gpu(arrays, frames[:1], shapes[1], **options)
    same(one + one[:1], other + alone)


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_schedules_in_bfloat16(kind, kernel):
    frames, shape = [BATCH[2], BATCH[0][:3]], Shape(kernel, blocks=2)
    options = options_of(kind, precision="bfloat16", max_symbols=2)
    first, *others = (on_gpu(small(kind), frames, shape, schedule, **options)[0] for schedule in schedules(10))
    for found in others:
        same(found, first)
    assert sum(len(one.tokens) for one in first) > 0


@pytest.mark.parametrize(("kind", "kernel"), [("rnnt", "kept"), ("stateless", "kept"), ("tdt", "many")])
def test_schedules(kind, kernel):
    frames = [BATCH[2], BATCH[0][:3]]
    for schedule in schedules():
        found, _ = check(small(kind), frames, Shape(kernel, blocks=2), schedule, **options_of(kind, max_symbols=2))
    assert sum(len(one.tokens) for one in found) > 2


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", transducer_plan.THREADS)
def test_blocks_of_as_many_threads_as_are_launched(kernel, precision):
    options = options_of("rnnt", precision=precision, max_symbols=2)
    frames, shape = [BATCH[2], BATCH[0][:3]], Shape(kernel, blocks=2)
    few, _ = on_gpu(small("rnnt"), frames, shape, **options)
    for schedule in schedules(2):
        many = replace(shape, threads=transducer_plan.THREADS[kernel])
        same(on_gpu(small("rnnt"), frames, many, schedule, **options)[0], few)
    if precision == "float32":
        check(small("rnnt"), frames, many, **options)


def arrays_of(kind):
    return random_arrays(3, blank_bias=2.0, **NETWORKS[kind])


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_half_precision_input(kind, kernel):
    _, launches = check(arrays_of(kind), [x.astype(np.float16) for x in BATCH], Shape(kernel), **options_of(kind))
    assert launches > 2, "the hypotheses have outgrown their room"


@pytest.mark.parametrize("name", ["max_prob", "gibbs", "renyi"])
def test_confidences(name):
    method = "max_prob" if name == "max_prob" else ConfidenceMethod(entropy_type=name, entropy_norm="lin")
    check(arrays_of("tdt"), BATCH, **options_of("tdt", confidence=method))


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_chunks(kind, kernel):
    """Some lanes go on, one begins, one is passed over by a duration."""
    options = options_of(kind)
    if options["durations"]:
        options["durations"] = [0, 1, 2, 30]
    first, second = [BATCH[0], BATCH[3][:4], BATCH[3][4:]], [BATCH[0][2:5].copy(), BATCH[3], BATCH[0]]
    found = TransducerDecoder.from_arrays(arrays_of(kind), device="cpu", **options).decode(first)
    states = [*(one.state for one in found[:2]), None]
    check(arrays_of(kind), second, Shape(kernel), given={"state": states}, **options)


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_frames_and_logits_that_are_not_finite(kernel):
    frames = [x.copy() for x in BATCH]
    frames[0][4, 3] = frames[0][6, 1] = np.inf
    frames[3][2, 5] = np.nan
    given, options = {"errors": "return"}, options_of("tdt")
    found, _ = on_gpu(arrays_of("tdt"), frames, Shape(kernel), given=given, **options)
    same(found[1:3], TransducerDecoder.from_arrays(arrays_of("tdt"), **options).decode(frames[1:3]))
    assert "got inf in utterance 0, frame 4, feature 3" in str(found[0].error)
    assert "got nan in utterance 3, frame 2, feature 5" in str(found[3].error)
    arrays, options = arrays_of("rnnt"), options_of("rnnt", activation="relu")
    arrays["output_weight"][5] = 3e38
    found, _ = on_gpu(arrays, BATCH[:2], Shape(kernel), given=given, **options)
    wanted = TransducerDecoder.from_arrays(arrays, device="cpu", **options).decode(BATCH[:2], **given)
    assert str(found[0].error) == str(wanted[0].error) and "not finite in utterance 0" in str(found[0].error)
    same(found[1:], wanted[1:])


def decode(decoder):
    return as_bytes(decoder.decode(BATCH))


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_the_host_can_end_it(kernel):
    check_interrupted(arrays_of("rnnt"), decode, Shape(kernel, room=64), **options_of("rnnt"))


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_blocks_that_do_not_all_run(kernel):
    check_blocks_apart(arrays_of("rnnt"), decode, Shape(kernel), 5000, **options_of("rnnt"))


@pytest.mark.parametrize("kind", ["rnnt", "stateless"])
def test_blocks_that_multiply_together(kind):
    """A tile of 32 x 32 for a block: as many tests as that takes, and matrices that do not end with one."""
    arrays = random_arrays(3, tokens=41, units=12, joint=165, blank_bias=1.0, **NETWORKS[kind])
    frames = [random_frames(i, 1 + i % 2) for i in range(35)]
    shape = Shape("many", blocks=1, threads=256, most_tests=40, first_window=1, widest_window=1, room=64)
    options = options_of(kind, max_symbols=1, confidence=None)
    for seed, policy in enumerate(POLICIES[:2]):
        found, _ = check(arrays, frames, shape, {"seed": seed, "policy": policy, "max_steps": 10**9}, **options)
    assert sum(len(one.tokens) for one in found) > 20


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_the_demo_s_model(demo_data, kernel):
    """A trained TDT from its file, and speech in float16."""
    with np.load(demo_data / "encoder_output.npz") as file:
        shortest = sorted(file.values(), key=len)[:2]
    written, _ = check(demo_data / "transducer.npz", shortest, Shape(kernel, blocks=8), confidence="entropy")
    assert [one.text for one in written] == ["ten of clubs", "seven offlubs"]
