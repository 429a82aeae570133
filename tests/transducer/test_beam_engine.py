"""Beam search of transducers: what no byte depends on, input that is bad, and what is not there yet."""

import math
import pickle

import numpy as np
import pytest

from arcbeam import InputError, TransducerDecoder, UnsupportedError
from tests.processes import interrupted
from tests.transducer.beam_searches import INF
from tests.transducer.equality import lists_as_bytes
from tests.transducer.networks import random_arrays, random_frames

SHAPES = {
    "rnnt": {"layers": 2},
    "tdt": {"layers": 1, "durations": 5},
    "stateless": {"layers": 0, "context": 2, "groups": 3},
    "tdt in bfloat16": {"layers": 1, "durations": 5},
}


def make(kind, **options):
    shape = {"tokens": 40, "size": 30, "units": 48, "joint": 33, "features": 20, "blank": 39, "blank_bias": 3.0}
    arrays = random_arrays(3, **shape, **SHAPES[kind])
    defaults = {"durations": [0, 1, 2, 3, 17] if "durations" in SHAPES[kind] else None, "confidence": "entropy"}
    defaults |= {"precision": "bfloat16" if kind.endswith("bfloat16") else "float32", "beam": 3.0, "device": "cpu"}
    return TransducerDecoder.from_arrays(arrays, 39, **{**defaults, **options})


@pytest.fixture(scope="module")
def batch():
    lengths = [0, 1, 2, 70, *np.random.default_rng(2).integers(3, 40, 20)]
    return [random_frames(i, int(n), 20) for i, n in enumerate(lengths)]


@pytest.fixture(scope="module", params=SHAPES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def answer(kind, batch):
    return lists_as_bytes(make(kind, threads=1).decode(batch, nbest=8))


def test_lists_are_long(kind, batch):
    found = make(kind).decode(batch, nbest=8)
    assert sum(len(one.nbest) for one in found) > 2 * len(batch)
    for one in found:
        sequences = [tuple(entry.tokens.tolist()) for entry in one.nbest]
        assert len(set(sequences)) == len(sequences)
        assert sequences[0] == tuple(one.tokens.tolist())


@pytest.mark.parametrize("threads", [2, 7])
def test_threads(kind, batch, answer, threads):
    assert lists_as_bytes(make(kind, threads=threads).decode(batch, nbest=8)) == answer


def test_batches_and_their_order(kind, batch, answer):
    decoder, order = make(kind, threads=2), np.random.default_rng(0).permutation(len(batch))
    got = lists_as_bytes(decoder.decode([batch[i] for i in order], nbest=8))
    assert [got[int(np.flatnonzero(order == i)[0])] for i in range(len(batch))] == answer
    for size in (1, 5):
        found = [one for i in range(0, len(batch), size) for one in decoder.decode(batch[i : i + size], nbest=8)]
        assert lists_as_bytes(found) == answer


def test_padding_is_never_read(kind, batch, answer):
    array = np.full((len(batch), 80, 20), np.nan, np.float32)
    for row, frames in zip(array, batch, strict=True):
        row[: len(frames)] = frames
    assert lists_as_bytes(make(kind).decode(array, [len(frames) for frames in batch], nbest=8)) == answer


def test_a_shorter_list_is_the_beginning_of_a_longer_one(kind, batch, answer):
    for nbest in (1, 3):
        found = lists_as_bytes(make(kind).decode(batch, nbest=nbest))
        assert found == [entries[: nbest + 1] for entries in answer]
    assert [one.nbest for one in make(kind).decode(batch)] == [None] * len(batch)


def test_ctrl_c_ends_a_decode_and_the_decoder_goes_on(kind, batch, answer):
    decoder = make(kind)
    interrupted(lambda: decoder.decode([random_frames(9, 50_000, 20)] * 8))
    assert lists_as_bytes(decoder.decode(batch, nbest=8)) == answer


def test_pickles(kind, batch, answer):
    decoder = pickle.loads(pickle.dumps(make(kind)))
    assert lists_as_bytes(pickle.loads(pickle.dumps(decoder.decode(batch, nbest=8)))) == answer


def test_a_beam_of_none_or_0_is_greedy(kind, batch):
    greedy, zero = make(kind, beam=None), make(kind, beam=0)
    assert zero.options == greedy.options
    for one, other in zip(greedy.decode(batch), zero.decode(batch), strict=True):
        assert one.tokens.tobytes() == other.tokens.tobytes()
        assert one.nbest is None
        assert one.posterior is None


# --- input that is bad, and what is not there yet ------------------------------------------------------------------


def test_lengths_of_0():
    [found] = make("tdt").decode(np.zeros((1, 0, 20), np.float32), nbest=5)
    assert (found.tokens.tolist(), found.score, found.posterior, len(found.nbest)) == ([], 0.0, 1.0, 1)
    assert make("tdt").decode([], nbest=5) == []


def test_values_that_are_not_finite(batch):
    decoder, frames = make("rnnt"), batch[3].copy()
    frames[5, 7] = np.nan
    with pytest.raises(InputError, match=r"got nan in utterance 1, frame 5, feature 7"):
        decoder.decode([batch[4], frames])
    good, bad = decoder.decode([batch[4], frames], nbest=3, errors="return")
    assert (bad.tokens.tolist(), bad.score, bad.posterior, bad.nbest) == ([], -INF, 0.0, [])
    assert isinstance(bad.error, InputError)
    assert lists_as_bytes([good]) == lists_as_bytes(decoder.decode([batch[4]], nbest=3))


def test_networks_that_overflow():
    arrays = random_arrays(1, tokens=5)
    arrays["output_weight"][:] = 1e38
    decoder = TransducerDecoder.from_arrays(arrays, 0, beam=4, device="cpu", activation="relu")
    frames = np.zeros((4, 7), np.float32)
    with pytest.raises(InputError, match=r"utterance 0, frame 0"):
        decoder.decode([frames + 1e3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": -1}, r"^beam: expected a number of nats that is at least 0, .* got -1"),
        ({"beam": math.nan}, r"^beam: .* got nan"),
        ({"beam": 4, "max_hypotheses": 0}, r"^max_hypotheses: expected a whole number of at least 1, got 0"),
        ({"beam": 4, "merge": "mean"}, r"^merge: expected sum or max, got 'mean'"),
        ({"beam": 4, "length_power": -0.5}, r"^length_power: expected a number from 0 to 10, got -0.5"),
        ({"beam": 4, "settle_frames": 0}, r"^settle_frames: expected a whole number of at least 1, or None, got 0"),
        ({"settle_frames": 9}, r"^settle_frames: expected a beam, too, such as beam=4"),
        ({"max_hypotheses": 4}, r"^max_hypotheses: expected a beam, too, such as beam=4"),
        ({"merge": "max"}, r"^merge: expected a beam, too"),
    ],
)
def test_options_that_are_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        make("tdt", **{"beam": None, **options})


def test_lists_that_cannot_be_had(batch):
    with pytest.raises(ValueError, match=r"^nbest: expected a decoder with a beam.* give beam=4"):
        make("tdt", beam=None).decode(batch, nbest=3)
    with pytest.raises(ValueError, match=r"^nbest: expected at most max_hypotheses, which is 8, got 9; give max_hyp"):
        make("tdt").decode(batch, nbest=9)
    with pytest.raises(TypeError, match=r"^nbest: expected a whole number of at least 1, or None, got str"):
        make("tdt").decode(batch, nbest="5")


def test_what_is_not_there_yet(batch):
    decoder = make("tdt")
    [found] = decoder.decode(batch[3:4])
    greedy = make("tdt", beam=None).decode(batch[3:4])
    said = r"^state: with a beam, a chunk has no tokens of its own.*stream = decoder\.stream\(\)"
    with pytest.raises(UnsupportedError, match=said):
        decoder.decode(batch[3:4], state=[greedy[0].state])
    for each in (found, decoder.stream().decode_chunk(batch[3])):
        with pytest.raises(UnsupportedError, match=said):
            _ = each.state
