"""What people have: one utterance, a mask of its frames, float64, logits. Each is decoded to the bytes of a batch."""

import numpy as np
import pytest

from arcbeam import CtcDecoder, InputError
from arcbeam.arrays.batches import InputSpec, as_inputs, as_log_probs
from tests.decode import graphs
from tests.decode.emulated_gpu import DeviceArray
from tests.decode.equality import same
from tests.transducer.oracle import log_prob_of

COLUMNS = 12
GRAPH = graphs.random_graph(0, columns=COLUMNS)
ROWS = [graphs.random_log_probs(seed, frames, COLUMNS) for seed, frames in enumerate((40, 23, 31))]


def make(device):
    return CtcDecoder(GRAPH, device=device, beam=9.0, threads=2)


def test_one_array_is_one_utterance(device):
    decoder = make(device)
    wanted = decoder.decode(ROWS)
    for row, one in zip(ROWS, wanted, strict=True):
        same([decoder.decode(row)], [one])
        assert str(decoder.decode(row.astype(np.float64))) == one.text
    for length in (17, np.int64(17), np.array(17), [17], np.arange(40)[None] < 17):
        same([decoder.decode(ROWS[0], length)], decoder.decode([ROWS[0][:17]]))
    assert decoder.decode(ROWS[0], nbest=2).nbest[0].words == decoder.decode(ROWS[:1], nbest=2)[0].nbest[0].words
    bad = ROWS[0].copy()
    bad[3, 2] = np.nan
    assert isinstance(decoder.decode(bad, errors="return").error, InputError)


@pytest.mark.parametrize("kind", [bool, np.int64, np.float32])
def test_a_mask_of_frames_says_the_lengths(device, kind):
    decoder = make(device)
    padded = np.zeros((3, 40, COLUMNS), np.float32)
    for place, row in zip(padded, ROWS, strict=True):
        place[: len(row)] = row
    mask = (np.arange(40) < np.array([[40], [23], [31]])).astype(kind)
    same(decoder.decode(padded, mask), decoder.decode(ROWS))
    same(decoder.decode(padded, mask.tolist()), decoder.decode(ROWS))
    same(decoder.decode(ROWS, mask), decoder.decode(ROWS))


def log_softmax(logits):
    """float32[frames, columns] by the rule of transducers, one value at a time."""
    rows = logits.astype(np.float32)
    return np.array([[log_prob_of(column, row) for column in range(len(row))] for row in rows], np.float32)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("columns", [1, 31, 32, 33, 70])
def test_log_probs_of_logits_obey_the_rule_of_transducers(kind, columns):
    rng = np.random.default_rng(columns)
    logits = rng.normal(0, 4, (7, columns)).astype(kind)
    logits[2, : columns // 2] = -np.inf
    logits[3, 0] = 60000.0
    taken = as_log_probs(as_inputs([logits[::-1], logits[:2]], None, InputSpec(columns, True)), np.ones(2, np.bool_))
    assert taken.rows(0, 0, columns).tobytes() == log_softmax(logits[::-1]).tobytes()
    assert taken.rows(1, 1, columns).tobytes() == log_softmax(logits[1:2]).tobytes()


def test_logits_are_decoded_as_their_log_probs(device):
    decoder = make(device)
    rng = np.random.default_rng(5)
    logits = [row + rng.normal(0, 5, (len(row), 1)).astype(np.float32) for row in ROWS]
    log_probs = [log_softmax(one) for one in logits]
    options = {"frame_confidence": "max_prob", "nbest": 3}
    wanted = decoder.decode(log_probs, **options)
    found = decoder.decode(logits, logits=True, **options)
    same(found, wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.frame_confidence.tobytes() == other.frame_confidence.tobytes()
    [batch] = decoder.decode_batches([(logits, [30, 20, 10])], logits=True)
    same(batch, decoder.decode(log_probs, [30, 20, 10]))


def test_arrays_on_the_gpu(emulated_gpu):
    decoder = make("cuda")
    wanted, plain = decoder.decode(ROWS, logits=True), decoder.decode(ROWS)
    for row in ROWS:
        emulated_gpu.fake.lend("memory", row.ctypes.data, row.nbytes)
    there = [DeviceArray(row) for row in ROWS]
    same([decoder.decode(there[0], logits=True)], wanted[:1])
    same(decoder.decode(there, logits=True), wanted)
    same([decoder.decode(there[0])], plain[:1])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_logits_are_named_where_they_are(device, value):
    decoder = make(device)
    logits = ROWS[0] * 3
    logits[5, 7] = value
    with pytest.raises(InputError, match=f"got {value} in utterance 0, frame 5, column 7"):
        decoder.decode(logits, logits=True)
    with pytest.raises(TypeError, match="logits: expected"):
        decoder.decode(logits, logits="yes")
