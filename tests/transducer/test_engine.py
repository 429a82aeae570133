"""What must not change the bytes: threads, batch order and split, padding, chunks, loops, vector units, reruns."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import TransducerDecoder
from arcbeam.transducer._transducer import available_kernels
from arcbeam.transducer.decoder import FrameLoopingDecoder
from tests.hypothesis_examples import examples
from tests.processes import in_threads, interrupted, of_a_child
from tests.transducer.networks import on_unit, random_arrays, random_frames

SHAPES = {
    "rnnt": {"layers": 2},
    "tdt": {"layers": 1, "durations": 4},
    "stateless": {"layers": 0, "context": 2, "groups": 3},
    "stateless tdt": {"layers": 0, "durations": 4},
    "rnnt in bfloat16": {"layers": 2},
    "stateless in bfloat16": {"layers": 0, "context": 2, "groups": 3},
}
DURATIONS = [0, 1, 2, 17]


def make(kind, loop=TransducerDecoder, **options):
    shape = {"tokens": 40, "size": 30, "units": 48, "joint": 33, "features": 20, "blank": 39, "blank_bias": 3.0}
    arrays = random_arrays(3, **shape, **SHAPES[kind])
    durations = DURATIONS if "durations" in SHAPES[kind] else None
    defaults = {"durations": durations, "confidence": "entropy", "threads": 2, "relu": kind == "stateless"}
    defaults["precision"] = "bfloat16" if kind.endswith("bfloat16") else "float32"
    return loop.from_arrays(arrays, 39, **{**defaults, **options})


@pytest.fixture(scope="module")
def batch():
    lengths = [0, 1, 2, 150, *np.random.default_rng(2).integers(3, 90, 36)]
    return [random_frames(i, int(n), 20) for i, n in enumerate(lengths)]


@pytest.fixture(scope="module", params=SHAPES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def answer(kind, batch):
    return as_bytes(make(kind, threads=1).decode(batch))


def arrays_of(hypothesis):
    parts = [hypothesis.tokens, hypothesis.frames, hypothesis.log_probs, hypothesis.confidence]
    return parts if hypothesis.durations is None else [*parts, hypothesis.durations]


def state_of(hypothesis):
    state = hypothesis.state
    return (state.hidden.tobytes(), state.cell.tobytes(), state.context.tobytes(), state.skip, state.frames)


def as_bytes(hypotheses):
    return [([part.tobytes() for part in arrays_of(h)], state_of(h)) for h in hypotheses]


def test_something_is_decoded(kind, batch):
    found = make(kind).decode(batch)
    tokens = [token for h in found for token in h.tokens.tolist()]
    assert len(tokens) > 100
    assert len(set(tokens)) > 10


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads(kind, batch, answer, threads):
    assert as_bytes(make(kind, threads=threads).decode(batch)) == answer


def test_loops(kind, batch, answer):
    assert as_bytes(make(kind, FrameLoopingDecoder).decode(batch)) == answer


@pytest.mark.parametrize("kernels", available_kernels())
def test_vector_units(kind, batch, answer, kernels):
    with on_unit(kernels):
        assert as_bytes(make(kind).decode(batch)) == answer


def test_rerun(kind, batch, answer):
    again = make(kind)
    for _ in range(5):
        assert as_bytes(again.decode(batch)) == answer


def test_batch_order(kind, batch, answer):
    order = np.random.default_rng(0).permutation(len(batch))
    got = as_bytes(make(kind).decode([batch[i] for i in order]))
    assert [got[int(np.flatnonzero(order == i)[0])] for i in range(len(batch))] == answer


@pytest.mark.parametrize("size", [1, 7])
def test_batch_split(kind, batch, answer, size):
    one = make(kind)
    got = [h for i in range(0, len(batch), size) for h in one.decode(batch[i : i + size])]
    assert as_bytes(got) == answer


def test_padding_is_never_read(kind, batch, answer):
    array = np.full((len(batch), 170, 20), np.nan, np.float32)
    for row, frames in zip(array, batch, strict=True):
        row[: len(frames)] = frames
    assert as_bytes(make(kind).decode(array, [len(frames) for frames in batch])) == answer


def test_strides(kind, batch, answer):
    apart = [np.repeat(frames, 2, axis=1)[:, ::2] for frames in batch]
    assert as_bytes(make(kind).decode(apart)) == answer
    rows_apart = [np.repeat(frames, 2, axis=0)[::2] for frames in batch]
    assert as_bytes(make(kind).decode(rows_apart)) == answer


def test_float16_equals_its_float32_copy(kind, batch):
    halves = [frames.astype(np.float16) for frames in batch]
    one = make(kind)
    assert as_bytes(one.decode(halves)) == as_bytes(one.decode([frames.astype(np.float32) for frames in halves]))


@settings(max_examples=examples(20))
@given(data=st.data(), which=st.sampled_from(sorted(SHAPES)))
def test_chunks(batch, which, data):
    """Streams in chunks, empty ones among them, give the tokens and the last state of the whole."""
    one = make(which)
    streams = data.draw(st.lists(st.integers(0, len(batch) - 1), min_size=1, max_size=3, unique=True))
    parts = [[] for _ in streams]
    states = [None] * len(streams)
    done = [0] * len(streams)
    while any(end < len(batch[i]) for end, i in zip(done, streams, strict=True)):
        sizes = [data.draw(st.integers(0, 40)) for _ in streams]
        chunks = [batch[i][end : end + n] for end, i, n in zip(done, streams, sizes, strict=True)]
        found = one.decode(chunks, state=states)
        states = [pickle.loads(pickle.dumps(h.state)) for h in found]
        done = [end + len(chunk) for end, chunk in zip(done, chunks, strict=True)]
        for part, h in zip(parts, found, strict=True):
            part.append(h)
    whole = one.decode([batch[i] for i in streams])
    for part, state, h in zip(parts, states, whole, strict=True):
        if not part:
            continue
        joined = [np.concatenate(arrays) for arrays in zip(*map(arrays_of, part), strict=True)]
        assert [array.tobytes() for array in joined] == [array.tobytes() for array in arrays_of(h)]
        assert state.frames == h.state.frames
        assert state_of(part[-1]) == state_of(h)


def test_a_duration_may_pass_over_whole_chunks(batch):
    arrays = random_arrays(3, tokens=9, durations=1, features=20)
    one = TransducerDecoder.from_arrays(arrays, 0, durations=[50])
    state, frames = None, []
    for begin in range(0, 150, 10):
        [found] = one.decode([batch[3][begin : begin + 10]], state=[state])
        state = found.state
        frames += found.frames.tolist()
        assert state.frames == begin + 10
        assert state.skip == (-begin - 10) % 50
    assert frames == one.decode([batch[3]])[0].frames.tolist()


def test_a_forked_child_decodes_too(kind, batch, answer):
    one = make(kind)
    assert of_a_child(lambda: as_bytes(one.decode(batch))) == answer


@pytest.mark.parametrize("loop", [TransducerDecoder, FrameLoopingDecoder])
def test_ctrl_c_ends_a_decode_and_the_decoder_goes_on(kind, batch, answer, loop):
    one = make(kind, loop)
    long = [random_frames(9, 200_000, 20)] * 8
    interrupted(lambda: one.decode(long))
    assert as_bytes(one.decode(batch)) == answer


def test_python_threads_take_turns(kind, batch, answer):
    one = make(kind)
    assert in_threads(*[lambda: as_bytes(one.decode(batch))] * 4) == [answer] * 4


def test_empty_batch_and_zero_frames(kind):
    one = make(kind)
    assert one.decode([]) == []
    assert one.decode(np.zeros((0, 5, 20), np.float32)) == []
    [found] = one.decode(np.zeros((1, 0, 20), np.float32))
    assert found.tokens.tolist() == []
    assert found.state.frames == 0
