"""Beam search of transducers: the twin against the law in Python, against all paths, and what no byte depends on."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import InputError, TransducerDecoder, UnsupportedError
from arcbeam.transducer._transducer import available_kernels
from tests.hypothesis_examples import examples
from tests.processes import interrupted
from tests.transducer import beam_oracle
from tests.transducer.beam_oracle import Counts, Model, Networks
from tests.transducer.networks import on_unit, random_arrays, random_frames

INF = math.inf
DURATIONS = [None, [0, 1, 2, 3, 4], [1, 2, 4], [0, 2, 5], [0, 0, 1]]
PREDICTIONS = [{"layers": 1}, {"layers": 2}, {"layers": 0, "context": 2, "groups": 3}, {"layers": 0}]
NETWORK = ("activation", "relu", "precision")


def model_of(arrays, frames, blank, durations, max_symbols, **network):
    networks = Networks(arrays, frames, blank, durations, **network)
    return Model(networks, len(frames), blank, durations, max_symbols)


def entries_of(hypothesis):
    """The n-best list of an utterance, all that there is of it."""
    return [
        (
            one.tokens.tolist(),
            one.frames.tolist(),
            None if one.durations is None else one.durations.tolist(),
            one.log_probs.tobytes(),
            one.score,
        )
        for one in hypothesis.nbest
    ]


def wanted(found, durations):
    """The same of the oracle."""
    columns = [[list(column) for column in zip(*labels, strict=True)] or [[]] * 4 for labels, _ in found]
    return [
        (
            tokens,
            frames,
            None if durations is None else steps,
            np.array(log_probs, np.float32).tobytes(),
            score,
        )
        for (tokens, frames, steps, log_probs), (_, score) in zip(columns, found, strict=True)
    ]


def decode(arrays, frames, blank=0, *, nbest=None, **options):
    decoder = TransducerDecoder.from_arrays(arrays, blank, **{"device": "cpu", "threads": 1, **options})
    return decoder.decode([frames], nbest=nbest or decoder.options.max_hypotheses)[0]


@st.composite
def searches(draw):
    """(arrays, frames, blank, options of the search, options of the networks)."""
    tokens = draw(st.integers(1, 7))
    blank = draw(st.sampled_from([0, tokens - 1]))
    durations = draw(st.sampled_from(DURATIONS))
    seed = draw(st.integers(0, 2**32 - 1))
    shape = {"tokens": tokens, "durations": len(durations or ()), "blank": blank, **draw(st.sampled_from(PREDICTIONS))}
    arrays = random_arrays(seed, **shape, blank_bias=draw(st.sampled_from([0.0, 1.0, 3.0])))
    options = {
        "durations": durations,
        "max_symbols": draw(st.sampled_from([1, 2, 10])),
        "beam": draw(st.sampled_from([0.5, 2.0, 6.0, INF])),
        "max_hypotheses": draw(st.sampled_from([1, 2, 4, 8])),
        "merge": draw(st.sampled_from(["sum", "max"])),
        "length_power": draw(st.sampled_from([0.0, 0.5, 1.0])),
    }
    network = {
        "activation": draw(st.sampled_from(["tanh", "relu"])),
        "relu": draw(st.booleans()),
        "precision": draw(st.sampled_from(["float32", "bfloat16"])),
    }
    return arrays, random_frames(seed, draw(st.integers(0, 7))), blank, options, network


@settings(max_examples=examples(60), deadline=None)
@given(case=searches())
def test_the_twin_obeys_the_law(case):
    """To the byte, pruned or not; and no score is above the sum over all paths."""
    arrays, frames, blank, options, network = case
    durations, max_symbols, *rest = options.values()
    model = model_of(arrays, frames, blank, durations, max_symbols, **network)
    expected = wanted(beam_oracle.search(model, *rest), durations)
    for kernels in available_kernels():
        with on_unit(kernels):
            found = decode(arrays, frames, blank, **options, **network)
        assert entries_of(found) == expected
    for tokens, *_, score in expected:
        assert score <= beam_oracle.full_sum(model, tokens) + 1e-4


@pytest.mark.parametrize("durations", DURATIONS, ids=str)
@pytest.mark.parametrize("merge", ["sum", "max"])
@pytest.mark.parametrize("shape", PREDICTIONS, ids=lambda shape: "-".join(map(str, shape.values())))
def test_all_paths_are_found_where_nothing_is_pruned(durations, merge, shape):
    """Histories and scores are those of all (frame, label, duration) paths, in float64."""
    for seed, max_symbols, frames in [(1, 1, 4), (2, 2, 3)]:
        arrays = random_arrays(seed, tokens=3, durations=len(durations or ()), **shape)
        x = random_frames(seed, frames)
        model = model_of(arrays, x, 0, durations, max_symbols)
        paths = beam_oracle.every_history(model, merge)
        found = decode(
            arrays, x, durations=durations, max_symbols=max_symbols, beam=INF, max_hypotheses=4096, merge=merge
        )
        scores = {tuple(one.tokens.tolist()): one.score for one in found.nbest}
        assert scores.keys() == paths.keys()
        assert len(scores) == len(found.nbest) > 2
        for history, score in scores.items():
            assert score == pytest.approx(paths[history], abs=2e-5)
            if merge == "sum":
                assert score == pytest.approx(beam_oracle.full_sum(model, history), abs=2e-5)
        if merge == "sum":
            assert math.fsum(math.exp(score) for score in scores.values()) == pytest.approx(1, abs=2e-5)
            assert math.fsum(one.posterior for one in found.nbest) == pytest.approx(1)
        assert [one.score for one in found.nbest] == sorted(scores.values(), reverse=True)


def test_a_hand_made_example():
    """Two frames, one label: it is written on the first, on the second, or not at all."""
    odds = [0.25, 3.0]  # of the label against the blank, on each frame
    arrays = {
        "embedding": np.zeros((1, 2, 1), np.float32),  # so that the labels before do not matter
        "encoder_weight": np.ones((1, 1), np.float32),
        "encoder_bias": np.array([5], np.float32),  # keeps the ReLU out of the way
        "prediction_weight": np.zeros((1, 1), np.float32),
        "output_weight": np.array([[0], [1]], np.float32),
        "output_bias": np.array([5, 0], np.float32),
    }
    frames = np.log(np.array(odds, np.float32))[:, None]
    label, blank = [odd / (1 + odd) for odd in odds], [1 / (1 + odd) for odd in odds]
    options = {"activation": "relu", "max_symbols": 1, "beam": 20.0}
    found = {tuple(one.tokens.tolist()): one for one in decode(arrays, frames, **options).nbest}
    once = label[0] * blank[1] + blank[0] * label[1]
    probs = {(): blank[0] * blank[1], (1,): once, (1, 1): label[0] * label[1]}
    assert {history: one.score for history, one in found.items()} == pytest.approx(
        {history: math.log(p) for history, p in probs.items()}, abs=1e-5
    )
    assert {history: one.posterior for history, one in found.items()} == pytest.approx(probs, abs=1e-5)
    assert found[1,].frames.tolist() == [1]  # the stronger of its two paths
    assert decode(arrays, frames, **options).tokens.tolist() == [1]
    largest = {tuple(one.tokens.tolist()): one.score for one in decode(arrays, frames, **options, merge="max").nbest}
    assert largest[1,] == pytest.approx(math.log(blank[0] * label[1]), abs=1e-5)


def test_ties():
    """Labels with equal logits: the smaller tokens, and among equal scores the first arrival."""
    arrays = random_arrays(1, tokens=9, layers=0, blank_bias=-1.0)
    for name in ("output_weight", "output_bias"):
        arrays[name][2:] = arrays[name][1]
    arrays["embedding"][:, 1:] = arrays["embedding"][:, :1]  # no label changes what comes after
    frames = random_frames(1, 3)
    for most in (1, 2, 3, 5):
        options = {"max_symbols": 2, "beam": INF, "max_hypotheses": most}
        found = decode(arrays, frames, **options)
        model = model_of(arrays, frames, 0, None, 2)
        assert entries_of(found) == wanted(beam_oracle.search(model, INF, most), None)
        assert {token for one in found.nbest for token in one.tokens.tolist()} <= set(range(1, most + 1))


@pytest.mark.parametrize("max_symbols", [1, 2, 10])
def test_max_symbols_are_reached(max_symbols):
    arrays = random_arrays(5, tokens=4, blank_bias=-9.0)
    frames = random_frames(5, 3)
    found = decode(arrays, frames, max_symbols=max_symbols, beam=3.0, max_hypotheses=3)
    assert np.bincount(found.frames).tolist() == [max_symbols] * 3
    counts = Counts()
    model = model_of(arrays, frames, 0, None, max_symbols)
    assert entries_of(found) == wanted(beam_oracle.search(model, 3.0, 3, counts=counts), None)
    assert max(depth for _, depth, _ in counts.steps) == max_symbols - 1


# --- what no byte depends on ---------------------------------------------------------------------------------------

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


def as_bytes(hypotheses):
    return [
        [
            (
                [a.tobytes() for a in (one.tokens, one.frames, one.log_probs, one.confidence)],
                None if one.durations is None else one.durations.tobytes(),
                one.score,
                one.posterior,
            )
            for one in (hypothesis, *hypothesis.nbest)
        ]
        for hypothesis in hypotheses
    ]


@pytest.fixture(scope="module")
def batch():
    lengths = [0, 1, 2, 70, *np.random.default_rng(2).integers(3, 40, 20)]
    return [random_frames(i, int(n), 20) for i, n in enumerate(lengths)]


@pytest.fixture(scope="module", params=SHAPES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def answer(kind, batch):
    return as_bytes(make(kind, threads=1).decode(batch, nbest=8))


def test_lists_are_long(kind, batch):
    found = make(kind).decode(batch, nbest=8)
    assert sum(len(one.nbest) for one in found) > 2 * len(batch)
    for one in found:
        sequences = [tuple(entry.tokens.tolist()) for entry in one.nbest]
        assert len(set(sequences)) == len(sequences)
        assert sequences[0] == tuple(one.tokens.tolist())


@pytest.mark.parametrize("threads", [2, 7])
def test_threads(kind, batch, answer, threads):
    assert as_bytes(make(kind, threads=threads).decode(batch, nbest=8)) == answer


def test_batches_and_their_order(kind, batch, answer):
    decoder, order = make(kind, threads=2), np.random.default_rng(0).permutation(len(batch))
    got = as_bytes(decoder.decode([batch[i] for i in order], nbest=8))
    assert [got[int(np.flatnonzero(order == i)[0])] for i in range(len(batch))] == answer
    for size in (1, 5):
        found = [one for i in range(0, len(batch), size) for one in decoder.decode(batch[i : i + size], nbest=8)]
        assert as_bytes(found) == answer


def test_padding_is_never_read(kind, batch, answer):
    array = np.full((len(batch), 80, 20), np.nan, np.float32)
    for row, frames in zip(array, batch, strict=True):
        row[: len(frames)] = frames
    assert as_bytes(make(kind).decode(array, [len(frames) for frames in batch], nbest=8)) == answer


def test_a_shorter_list_is_the_beginning_of_a_longer_one(kind, batch, answer):
    for nbest in (1, 3):
        found = as_bytes(make(kind).decode(batch, nbest=nbest))
        assert found == [entries[: nbest + 1] for entries in answer]
    assert [one.nbest for one in make(kind).decode(batch)] == [None] * len(batch)


def test_ctrl_c_ends_a_decode_and_the_decoder_goes_on(kind, batch, answer):
    decoder = make(kind)
    interrupted(lambda: decoder.decode([random_frames(9, 50_000, 20)] * 8))
    assert as_bytes(decoder.decode(batch, nbest=8)) == answer


def test_pickles(kind, batch, answer):
    decoder = pickle.loads(pickle.dumps(make(kind)))
    assert as_bytes(pickle.loads(pickle.dumps(decoder.decode(batch, nbest=8)))) == answer


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
    assert as_bytes([good]) == as_bytes(decoder.decode([batch[4]], nbest=3))


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
    for what, call in {
        "state": lambda: decoder.decode(batch[3:4], state=[greedy[0].state]),
        "boost": lambda: decoder.decode(batch[3:4], boost=[None]),
        "stream": decoder.stream,
        "restore": lambda: decoder.restore(b""),
    }.items():
        with pytest.raises(UnsupportedError, match=rf"^{what}: this works with greedy search only"):
            call()
    with pytest.raises(UnsupportedError, match=r"^state: going on with the next chunk .* greedy search only"):
        _ = found.state
    with pytest.raises(UnsupportedError, match=r"^ngram_lm_model: this works with greedy search only"):
        make("tdt", ngram_lm_model="model.arpa")
    with pytest.raises(UnsupportedError, match=r'^device: expected "cpu", because beam search .* got \'cuda:0\''):
        make("tdt", device="cuda:0")
