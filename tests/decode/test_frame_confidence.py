"""Confidences of frames, labels and words from the log-probs alone: NeMo's formulas, and the same bytes everywhere."""

import math
import pickle

import numpy as np
import pytest

from arcbeam import ConfidenceMethod, CtcDecoder, CudaError, Graph
from arcbeam.core._confidence import aggregated
from arcbeam.core.confidence import AGGREGATIONS, measure
from arcbeam.ctc.confidence._frame_confidence import FrameConfidenceEngine
from tests.decode import word_times_oracle
from tests.decode.emulated_gpu import DeviceArray
from tests.decode.random_graphs import random_log_probs
from tests.decode.small_search import GRAPH, OPTIONS, ROOMY
from tests.decode.test_word_times import BLANK, SPELLED, TOKENS, loop_graph, rows, word_graph
from tests.transducer.test_results import METHODS, formula

BATCH = [random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 30))]
TYPES = (np.float32, np.float16)


def named(method):
    return f"{method.name}-{method.entropy_type}-{method.entropy_norm}-{method.alpha}"


def confidences(batch, method=None, *, portable=False, threads=1):
    """By the engine alone: one array for each utterance."""
    table = [(a.ctypes.data, a.strides[0] // a.itemsize, len(a), a.dtype == np.float16) for a in batch]
    engine = FrameConfidenceEngine(threads=threads, portable=portable)
    columns = batch[0].shape[1]
    found = engine.confidences(np.array(table, np.int64), columns, measure(method or ConfidenceMethod(), columns))
    return np.split(found, np.cumsum([len(a) for a in batch])[:-1])


def speech(columns, frames=40, seed=0):
    """Frames from certain to uniform, normalised."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(frames, columns)) * np.linspace(0.0, 12.0, frames)[:, None]
    return (x - np.log(np.exp(x).sum(1, keepdims=True))).astype(np.float32)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("columns", [2, 29, 32, 75, 1024])
@pytest.mark.parametrize("method", METHODS, ids=named)
def test_frames_follow_the_formula(method, columns, dtype):
    logp = speech(columns).astype(dtype)
    [found] = confidences([logp], method)
    expected = [formula(method, row) for row in logp.astype(np.float64)]
    assert found.dtype == np.float32 and ((found >= 0) & (found <= 1)).all()
    np.testing.assert_allclose(found, np.clip(expected, 0, 1), rtol=0, atol=5e-5)
    assert found.max() - found.min() > 0.3


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_columns_that_never_come_have_no_share(method):
    logp = speech(40)
    logp[:, 10:30] = -np.inf
    logp -= np.log(np.exp(logp.astype(np.float64)).sum(1, keepdims=True)).astype(np.float32)
    [found] = confidences([logp], method)
    expected = [formula(method, np.maximum(row, -1e30)) for row in logp.astype(np.float64)]
    np.testing.assert_allclose(found, np.clip(expected, 0, 1), rtol=0, atol=5e-5)


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_certain_is_one_and_uniform_is_zero(method):
    certain = np.full((1, 30), -np.inf, np.float32)
    certain[0, 4] = 0.0
    never = np.full((1, 30), -np.inf, np.float32)
    uniform = np.full((1, 30), -math.log(30), np.float32)
    odd = np.stack([np.full(30, value, np.float32) for value in (0.0, 5.0, 88.0, 3e38, -3e38, -90.0)])
    found = confidences([certain, uniform, never, odd], method)
    assert found[0] == pytest.approx(1.0, abs=1e-5) and found[1] == pytest.approx(0.0, abs=1e-5)
    assert found[2].tolist() == [0.0]
    assert ((found[3] >= 0) & (found[3] <= 1)).all()  # never NaN


@pytest.mark.parametrize("method", METHODS, ids=named)
def test_bytes_do_not_depend_on_threads_orders_strides_or_the_vector_unit(method):
    batch = [speech(37, frames, seed) for seed, frames in enumerate((5, 0, 40, 1, 17))]
    expected = [found.tobytes() for found in confidences(batch, method)]
    assert [found.tobytes() for found in confidences(batch, method, portable=True)] == expected
    assert [found.tobytes() for found in confidences(batch[::-1], method, threads=3)][::-1] == expected
    wide = [np.repeat(one, 2, axis=0)[::2] for one in batch]
    assert [found.tobytes() for found in confidences(wide, method, threads=2)] == expected
    halves = [one.astype(np.float16) for one in batch]
    floats = [one.astype(np.float32) for one in halves]
    assert [f.tobytes() for f in confidences(halves, method)] == [f.tobytes() for f in confidences(floats, method)]


AGGREGATED = {"mean": np.mean, "min": np.min, "max": np.max, "prod": np.prod}


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_aggregations(aggregation):
    rng = np.random.default_rng(1)
    values = rng.random(50).astype(np.float32)
    begins = rng.integers(0, 50, 30)
    ends = np.minimum(begins + rng.integers(0, 9, 30), 50)
    found = aggregated(values, begins, ends, aggregation)
    for begin, end, one in zip(begins, ends, found, strict=True):
        whole = AGGREGATED[aggregation](values[begin:end].astype(np.float64)) if end > begin else 0.0
        assert one == np.float32(whole) or one == pytest.approx(whole, rel=1e-7)
    with pytest.raises(IndexError, match="expected ranges from 0 to 50, got 49 to 51"):
        aggregated(values, np.array([49]), np.array([51]), aggregation)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_labels_and_words_are_made_of_their_frames(aggregation):
    graph = word_graph(SPELLED)
    logp = rows("-aa-b_b--") * np.linspace(0.05, 0.2, 9, dtype=np.float32)[:, None]
    logp -= np.log(np.exp(logp).sum(1, keepdims=True))
    one = CtcDecoder(graph, device="cpu", frame_shift=0.02, confidence_aggregation=aggregation)
    [found] = one.decode([logp], frame_confidence="entropy")
    assert found.frame_confidence.tolist() == confidences([logp])[0].tolist()
    assert [(label.label, label.start_frame, label.end_frame) for label in found.labels] == [
        ("a", 1, 3), ("b", 4, 5), ("<space>", 5, 6), ("b", 6, 7),
    ]  # fmt: skip
    assert (found.labels[0].start, found.labels[0].end) == (0.02, 0.06)
    together = AGGREGATED[aggregation]
    frames = found.frame_confidence.astype(np.float64)
    expected = [together(frames[label.start_frame : label.end_frame]) for label in found.labels]
    np.testing.assert_allclose(found.token_confidence, expected, rtol=1e-7)
    assert [label.confidence for label in found.labels] == found.token_confidence.tolist()
    assert [word.word for word in found.words] == ["ab", "b"]
    of_words = [together(found.token_confidence[:2].astype(np.float64)), found.token_confidence[3]]
    np.testing.assert_allclose(found.word_confidence, of_words, rtol=1e-7)
    assert all(word.confidence is None for word in found.words) and found.confidence is None


def test_labels_are_the_path_without_repeats_and_blanks():
    for one in CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(BATCH, frame_confidence="max_prob"):
        tokens = word_times_oracle._tokens(GRAPH, one.arcs)
        wanted = list(zip(tokens.columns, tokens.starts, tokens.ends, strict=True))
        assert [(label.label, label.start_frame, label.end_frame) for label in one.labels] == [
            (f"t{column}", start, end) for column, start, end in wanted
        ]
        assert len(one.word_confidence) == len(one.words) and len(one.frame_confidence) == len(one.tokens)
        assert len(one.token_confidence) == len(wanted)


def as_values(hypotheses):
    return [(one.text, one.frame_confidence.tobytes(), one.labels, one.word_confidence.tobytes()) for one in hypotheses]


def test_threads_batches_and_other_outputs_change_nothing():
    one = CtcDecoder(GRAPH, device="cpu", threads=1, **OPTIONS)
    expected = as_values(one.decode(BATCH, frame_confidence="entropy"))
    many = CtcDecoder(GRAPH, device="cpu", threads=4, **OPTIONS)
    for _ in range(2):
        found = many.decode(BATCH[::-1], frame_confidence=ConfidenceMethod(), nbest=3, confidence=True)
        assert as_values(found)[::-1] == expected
        assert as_values([many.decode([each], frame_confidence="entropy")[0] for each in BATCH]) == expected
        many.release()
    padded = np.zeros((len(BATCH), 30, 12), np.float32)
    for i, each in enumerate(BATCH):
        padded[i, : len(each)] = each
    lengths = [len(each) for each in BATCH]
    assert as_values(one.decode(padded, lengths, frame_confidence="entropy")) == expected


def lent(gpu, array):
    """An array on the GPU, which copies back may read too."""
    if array.size:
        first = array.ctypes.data + min(array.strides[0], 0) * (len(array) - 1)
        gpu.fake.lend("memory", first, (len(array) - 1) * abs(array.strides[0]) + array.shape[1] * array.itemsize)
    return DeviceArray(array)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_gpu_gives_the_same(emulated_gpu, dtype):
    emulated_gpu.begin_with(ROOMY)
    batch = [each.astype(dtype) for each in BATCH]
    expected = as_values(CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(batch, frame_confidence="entropy"))
    gpu = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    assert as_values(gpu.decode(batch, frame_confidence="entropy")) == expected
    reversed_rows = [np.ascontiguousarray(each[::-1])[::-1] for each in batch]
    wide = [np.repeat(each, 3, axis=0)[::3] for each in batch]
    for arrays in (batch, reversed_rows, wide):
        on_device = [lent(emulated_gpu, each) for each in arrays]
        assert as_values(gpu.decode(on_device, frame_confidence="entropy")) == expected
        emulated_gpu.fake.library.fake_take_back()
    bad = batch[2].copy()
    bad[3, 2] = np.nan
    both = [lent(emulated_gpu, batch[0]), lent(emulated_gpu, bad)]
    found = gpu.decode(both, frame_confidence="entropy", errors="return")
    assert as_values(found)[0] == expected[0] and len(found[1].frame_confidence) == 0


def test_a_copy_that_fails_leaves_the_decoder_usable(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    gpu = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    with pytest.raises(CudaError, match="copying from the device"):
        gpu.decode([DeviceArray(BATCH[0])], frame_confidence="entropy")
    assert gpu.decode([lent(emulated_gpu, BATCH[0])], frame_confidence="entropy")[0].labels is not None


def test_dead_refused_and_silent_utterances():
    dying, bad = BATCH[-1].copy(), BATCH[-1].copy()
    dying[11:] = -np.inf
    bad[3, 2] = np.nan
    one = CtcDecoder(GRAPH, device="cpu", **OPTIONS)
    dead, refused, silent = one.decode([dying, bad, BATCH[1]], errors="return", frame_confidence="entropy")
    assert len(dead.frame_confidence) == len(dying) and (dead.frame_confidence[11:] == 0).all()
    assert dead.labels and dead.labels[-1].end_frame <= 11
    for empty in (refused, silent):
        assert len(empty.frame_confidence) == len(empty.labels) == 0
    assert len(refused.word_confidence) == 0
    assert silent.words and silent.word_confidence.tolist() == [0.0] * len(silent.words)  # words without labels
    assert len(one.decode([], frame_confidence="entropy")) == 0


def test_pickles_and_dictionaries():
    one = CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(BATCH, frame_confidence="entropy")[-1]
    again = pickle.loads(pickle.dumps(one))
    assert as_values([again]) == as_values([one]) and again.to_dict() == one.to_dict()
    said = one.to_dict()
    assert said["frame_confidence"] == one.frame_confidence.tolist()
    assert [word["frame_confidence"] for word in said["words"]] == one.word_confidence.tolist() != []
    assert said["labels"][0] == one.labels[0]._asdict()
    plain = CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(BATCH)[-1]
    assert (plain.frame_confidence, plain.token_confidence, plain.labels, plain.word_confidence) == (None,) * 4
    assert not {"labels", "frame_confidence"} & (set(plain.to_dict()) | set(plain.to_dict()["words"][0]))


def test_names_are_columns_where_there_are_no_tokens():
    fields = loop_graph().fields() | {"tokens": None}
    [found] = CtcDecoder(Graph(**fields), device="cpu").decode([rows("-ab")], frame_confidence="entropy")
    assert [label.label for label in found.labels] == ["1", "2"] and TOKENS.tokens[BLANK] == "<blank>"


def test_bad_requests():
    one = CtcDecoder(GRAPH, device="cpu", **OPTIONS)
    for wrong in ("sure", 1, True):
        with pytest.raises(ValueError, match='frame_confidence: expected "max_prob" or "entropy", an arcbeam'):
            one.decode(BATCH, frame_confidence=wrong)
    with pytest.raises(ValueError, match="confidence alpha: expected a smaller number for 12 tokens"):
        one.decode(BATCH, frame_confidence=ConfidenceMethod(alpha=1e6, name="max_prob"))
    with pytest.raises(ValueError, match="confidence_aggregation: expected one of mean, min, max, prod, got 'sum'"):
        CtcDecoder(GRAPH, device="cpu", confidence_aggregation="sum")
    fields = GRAPH.fields() | {"blank": None, "tokens": None}
    with pytest.raises(ValueError, match="frame_confidence: the graph has no blank; give blank="):
        CtcDecoder(Graph(**fields), device="cpu").decode(BATCH, frame_confidence="entropy")
    assert one.decode(BATCH[:1])[0].complete
