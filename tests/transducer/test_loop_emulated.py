"""The transducer kernels under the emulator: the CPU engine's bytes, whatever the schedule, the kernel, its launch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import TransducerDecoder
from arcbeam.core.confidence import measure
from arcbeam.gpu.tuned import transducer_plan
from arcbeam.transducer._transducer import multiply
from arcbeam.transducer.network import from_mapping
from tests.hypothesis_examples import examples
from tests.simt.build import POLICIES, schedules
from tests.transducer.loop_host import BAD_INPUT, CANCELLED, NOT_FINITE, LoopHost, Shape, StuckError
from tests.transducer.networks import cases, random_arrays, random_frames

NETWORKS = {
    "rnnt": {"layers": 2},
    "tdt": {"layers": 1, "durations": 4},
    "stateless": {"layers": 0, "context": 2, "groups": 3},
    "stateless tdt": {"layers": 0, "durations": 4},
}
BATCH = [random_frames(i, n) for i, n in enumerate((9, 0, 1, 17))]


def options_of(kind, **more):
    durations = [0, 1, 2, 5] if "durations" in NETWORKS[kind] else None
    return {"blank_id": 0, "durations": durations, "max_symbols": 3, **more}


def both(arrays, options, confidence="entropy"):
    """(decoder on the CPU, host of the kernels)."""
    decoder = TransducerDecoder.from_arrays(arrays, threads=1, confidence=confidence, **options)
    prediction, joint = from_mapping(arrays, options.get("activation", "tanh"), options.get("relu", False))
    method = decoder.options.confidence
    sure = None if method is None or prediction.tokens < 2 else measure(method, prediction.tokens)
    return decoder, LoopHost(prediction, joint, options, sure)


def of(kind, **options):
    return both(random_arrays(3, blank_bias=2.0, **NETWORKS[kind]), options_of(kind, **options))


def same(found, hypotheses, frames):
    for one, wanted, utterance in zip(found, hypotheses, frames, strict=True):
        records, state = one.records, wanted.state
        assert one.outcome == 0
        assert records["token"].tolist() == wanted.tokens.tolist()
        before = state.frames - len(utterance)
        assert (records["frame"] + before).tolist() == wanted.frames.tolist()
        assert records["log_prob"].tobytes() == wanted.log_probs.tobytes()
        if wanted.durations is not None:
            assert records["duration"].tolist() == wanted.durations.tolist()
        if wanted.confidence is not None:
            assert records["confidence"].tobytes() == wanted.confidence.tobytes()
        assert one.hidden.tobytes() == state.hidden.tobytes()
        assert one.cell.tobytes() == state.cell.tobytes()
        assert one.context.tolist() == state.context.tolist()
        assert one.frame - len(utterance) == state.skip


@pytest.mark.parametrize("features", [39, 40])
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_project_in_bfloat16(dtype, staged, features):
    arrays = random_arrays(4, joint=150, features=features)
    for name in ("encoder_weight", "encoder_bias"):  # so that sums are exact, whatever their order
        arrays[name] = np.rint(8 * arrays[name]).astype(np.float32) / 8
    _, host = both(arrays, options_of("rnnt", precision="bfloat16"))
    host.project_staged = staged
    lengths = (0, 1, 8, 39, 90, 3)
    frames = [np.rint(4 * random_frames(i, n, features)).astype(dtype) / dtype(4) for i, n in enumerate(lengths)]
    joined = np.concatenate(frames).astype(np.float32)
    for schedule in schedules(3):
        projected, bad = host.project(frames, **schedule)
        assert bad == [None] * 6
        assert np.array_equal(projected, joined @ arrays["encoder_weight"].T + arrays["encoder_bias"])
    frames[4][88, 3] = frames[4][70, 38] = frames[4][70, 5] = np.inf
    assert host.project(frames)[1] == [None, None, None, None, (70, 5), None]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("threads", [64, 256])
def test_project(dtype, threads):
    arrays = random_arrays(4, joint=45, features=39)
    _, host = both(arrays, options_of("rnnt"))
    host.project_threads = threads
    frames = [random_frames(i, n, 78).astype(dtype)[:, :39] for i, n in enumerate((0, 1, 8, 19))]  # rows lie apart
    joined = np.concatenate(frames).astype(np.float32)
    for schedule in schedules(5):
        projected, bad = host.project(frames, **schedule)
        assert bad == [None] * 4
        assert projected.tobytes() == multiply(arrays["encoder_weight"], arrays["encoder_bias"], joined).tobytes()
    frames[3][17, 3] = frames[3][9, 38] = frames[3][9, 5] = np.inf
    assert host.project(frames)[1] == [None, None, None, (9, 5)]


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
@given(cases(), SHAPES, st.sampled_from(POLICIES), st.booleans(), st.sampled_from(["label-looping", "frame-looping"]))
def test_random_networks(case, shape, policy, sure, algorithm):
    arrays, options, frames = case
    options = {**options, "algorithm": algorithm}
    tokens = arrays["embedding"].shape[-2]
    decoder, host = both(arrays, options, "entropy" if sure and tokens > 1 else None)
    same(host.decode(frames, shape=shape, policy=policy), decoder.decode(frames), frames)


@settings(max_examples=examples(40))
@given(cases(), st.lists(SHAPES, min_size=2, max_size=2), st.sampled_from(POLICIES))
def test_random_networks_in_bfloat16(case, shapes, policy):
    """Two launches give the same bytes, the first utterance also when it is alone."""
    arrays, options, frames = case
    _, host = both(arrays, {**options, "precision": "bfloat16"}, None)
    one = host.decode(frames, shape=shapes[0], policy=policy)
    other = host.decode(frames, shape=shapes[1])
    for a, b in zip(one + one[:1], other + host.decode(frames[:1], shape=shapes[1]), strict=True):
        assert a.records.tobytes() == b.records.tobytes()
        assert (a.hidden.tobytes(), a.cell.tobytes()) == (b.hidden.tobytes(), b.cell.tobytes())
        assert (a.context.tolist(), a.frame, a.outcome) == (b.context.tolist(), b.frame, b.outcome)


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_schedules_in_bfloat16(kind, kernel):
    arrays = random_arrays(6, tokens=6, units=5, joint=133, blank_bias=-1.0, **NETWORKS[kind])
    _, host = both(arrays, options_of(kind, precision="bfloat16", max_symbols=2))
    frames = [BATCH[2], BATCH[0][:3]]
    answers = set()
    for schedule in schedules(10):
        found = host.decode(frames, shape=Shape(kernel=kernel, blocks=2), **schedule)
        answers.add(tuple((one.records.tobytes(), one.hidden.tobytes(), one.cell.tobytes()) for one in found))
    assert len(answers) == 1
    assert sum(len(one.records) for one in found) > 0


@pytest.mark.parametrize(("kind", "kernel"), [("rnnt", "kept"), ("stateless", "kept"), ("tdt", "many")])
def test_schedules(kind, kernel):
    arrays = random_arrays(6, tokens=6, units=5, joint=133, blank_bias=-1.0, **NETWORKS[kind])
    decoder, host = both(arrays, options_of(kind, max_symbols=2))
    frames = [BATCH[2], BATCH[0][:3]]
    wanted = decoder.decode(frames)
    assert sum(len(h.tokens) for h in wanted) > 2
    for schedule in schedules():
        same(host.decode(frames, shape=Shape(kernel=kernel, blocks=2), **schedule), wanted, frames)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", transducer_plan.THREADS)
def test_launches_of_the_engine(kernel, precision):
    arrays = random_arrays(6, tokens=6, units=5, joint=133, blank_bias=-1.0, **NETWORKS["rnnt"])
    decoder, host = both(arrays, options_of("rnnt", precision=precision, max_symbols=2))
    frames = [BATCH[2], BATCH[0][:3]]
    small = host.decode(frames, shape=Shape(kernel=kernel, blocks=2))
    for schedule in schedules(2):
        shape = Shape(kernel=kernel, blocks=2, threads=transducer_plan.THREADS[kernel])
        found = host.decode(frames, shape=shape, **schedule)
        if precision == "float32":
            same(found, decoder.decode(frames), frames)
        assert [one.records.tobytes() for one in found] == [one.records.tobytes() for one in small]


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_half_precision_input(kind, kernel):
    decoder, host = of(kind)
    frames = [x.astype(np.float16) for x in BATCH]
    same(host.decode(frames, shape=Shape(kernel=kernel)), decoder.decode(frames), frames)
    assert host.launches > 1  # the hypotheses have outgrown their room


@pytest.mark.parametrize("name", ["max_prob", "gibbs", "renyi"])
def test_confidences(name):
    from arcbeam.transducer import ConfidenceMethod

    method = "max_prob" if name == "max_prob" else ConfidenceMethod(entropy_type=name, entropy_norm="lin")
    arrays = random_arrays(3, blank_bias=2.0, **NETWORKS["tdt"])
    decoder, host = both(arrays, options_of("tdt"), method)
    same(host.decode(BATCH, shape=Shape()), decoder.decode(BATCH), BATCH)


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_chunks(kind, kernel):
    """Some lanes go on, one begins, one is passed over by a duration."""
    decoder, host = of(kind, durations=[0, 1, 2, 30] if "durations" in NETWORKS[kind] else None)
    first, second = [BATCH[0], BATCH[3][:4], BATCH[3][4:]], [BATCH[0][2:5].copy(), BATCH[3], BATCH[0]]
    states = [*(h.state for h in decoder.decode(first)[:2]), None]
    wanted = decoder.decode(second, state=states)
    same(host.decode(second, states, Shape(kernel=kernel)), wanted, second)


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_frames_and_logits_that_are_not_finite(kernel):
    decoder, host = of("tdt")
    frames = [x.copy() for x in BATCH]
    frames[0][4, 3] = frames[0][6, 1] = np.inf
    frames[3][2, 5] = np.nan
    found = host.decode(frames, shape=Shape(kernel=kernel))
    assert [one.outcome for one in found] == [BAD_INPUT, 0, 0, BAD_INPUT]
    assert found[0].bad == (4, 3, np.inf)
    assert found[3].bad[:2] == (2, 5) and np.isnan(found[3].bad[2])
    same(found[1:3], decoder.decode(frames[1:3]), frames[1:3])
    arrays = random_arrays(3, blank_bias=2.0, **NETWORKS["rnnt"])
    arrays["output_weight"][5] = 3e38
    _, host = both(arrays, {**options_of("rnnt"), "activation": "relu"})
    found = host.decode([BATCH[0], BATCH[1]], shape=Shape(kernel=kernel))
    assert [one.outcome for one in found] == [NOT_FINITE, 0]
    with pytest.raises(ValueError, match=f"not finite in utterance 0, frame {found[0].bad[0]}:"):
        TransducerDecoder.from_arrays(arrays, 0, activation="relu", max_symbols=3).decode([BATCH[0]])


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_the_host_can_end_it(kernel):
    _, host = of("rnnt")
    found = host.decode(BATCH, shape=Shape(kernel=kernel, room=64), cancel=1)
    assert host.ending == CANCELLED
    assert [len(one.records) for one in found] == [0, 0, 0, 0]


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_blocks_that_do_not_come(kernel):
    """A block alone waits at the barrier, gives up and says so; those that come later leave at once."""
    _, host = of("rnnt")
    with pytest.raises(StuckError):
        host.decode(BATCH, shape=Shape(kernel=kernel, patience=5000), resident=1)


@pytest.mark.parametrize("kind", ["rnnt", "stateless"])
def test_blocks_that_multiply_together(kind):
    """A tile of 32 x 32 for a block: as many tests as that takes, and matrices that do not end with one."""
    arrays = random_arrays(3, tokens=41, units=12, joint=165, blank_bias=1.0, **NETWORKS[kind])
    decoder, host = both(arrays, options_of(kind, max_symbols=1), None)
    frames = [random_frames(i, 1 + i % 2) for i in range(35)]
    wanted = decoder.decode(frames)
    assert sum(len(h.tokens) for h in wanted) > 20
    for seed, policy in enumerate(POLICIES[:2]):
        shape = Shape(kernel="many", blocks=1, threads=256, most_tests=40, first_window=1, widest_window=1, room=64)
        same(host.decode(frames, shape=shape, seed=seed, policy=policy, max_steps=10**9), wanted, frames)
