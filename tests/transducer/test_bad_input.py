"""What a user can get wrong: the right exception, what was expected and got, a decoder that goes on."""

import math

import numpy as np
import pytest

import arcbeam
from arcbeam import InputError, TransducerDecoder
from arcbeam.transducer import ConfidenceMethod, Joint, LstmLayer, LstmPrediction, StatelessPrediction
from arcbeam.transducer.decoder import FrameLoopingDecoder
from tests.transducer.equality import same
from tests.transducer.networks import random_arrays, random_frames

ARRAYS = random_arrays(0, tokens=13, size=9, units=11, joint=15, features=7, layers=2)
TDT = random_arrays(0, durations=3)
GOOD = random_frames(0, 12)


def spoiled(value, dtype=np.float32):
    frames = GOOD.astype(dtype)
    frames[5, 3] = value
    return frames


def decoder(**options):
    return TransducerDecoder.from_arrays(ARRAYS, 0, **{"threads": 1, **options})


INPUTS = {
    "nan": ([GOOD, spoiled(np.nan)], None, ValueError, r"finite values, got nan in utterance 1, frame 5, feature 3"),
    "inf": ([spoiled(-np.inf)], None, ValueError, r"got -inf in utterance 0, frame 5, feature 3"),
    "half": ([spoiled(np.inf, np.float16)], None, ValueError, r"got inf in utterance 0, frame 5, feature 3"),
    "large": ([spoiled(3e38)], None, ValueError, r"network's output is not finite in utterance 0, frame 5"),
    "narrow": ([GOOD[:, :6]], None, ValueError, r"encoder_output\[0\]: expected 7 features, got 6 \("),
    "wide": (np.zeros((2, 3, 8), np.float32), None, ValueError, r"encoder_output: expected 7 features, got 8"),
    "turned batch": (
        np.zeros((2, 7, 8), np.float32),
        None,
        ValueError,
        r"got 8 \(is it \[batch, features, frames\]\? transpose it to \[batch, frames, features\]\)",
    ),
    "turned": ([GOOD.T], None, ValueError, r"expected 7 features, got 12 \(is it \[features, frames\]\? transpose"),
    "flat": (GOOD[0], None, ValueError, r"expected \[batch, frames, features\], got 1 dimension "),
    "negative length": ([GOOD], [-1], ValueError, r"lengths\[0\]: expected 0 to 12 frames, got -1"),
    "length beyond": ([GOOD], [13], ValueError, r"lengths\[0\]: expected 0 to 12 frames, got 13"),
    "share of one": (GOOD, 1.0, TypeError, r"lengths: .* got float64 \(are they shares of the longest"),
    "bool of one": (GOOD, np.True_, TypeError, r"lengths: expected integers, got bool$"),
    "whole": (
        [GOOD.astype(int)],
        None,
        TypeError,
        r"expected float32 or float16 values, got int64; give encoder_output",
    ),
    "text": ("frames", None, TypeError, r"encoder_output: expected an array"),
}


@pytest.mark.parametrize("loop", [TransducerDecoder, FrameLoopingDecoder])
@pytest.mark.parametrize("case", INPUTS)
def test_encoder_output(case, loop):
    frames, lengths, error, message = INPUTS[case]
    arrays = dict(ARRAYS, encoder_weight=np.full_like(ARRAYS["encoder_weight"], 9.0)) if case == "large" else ARRAYS
    one = loop.from_arrays(arrays, 0, activation="relu")
    before = one.decode([GOOD])[0].log_probs
    with pytest.raises(error, match=message):
        one.decode(frames, lengths)
    assert one.decode([GOOD])[0].log_probs.tobytes() == before.tobytes()


def as_it_was(found, wanted, frames):
    """Asserts that an utterance that could not be decoded has no tokens and its state from before."""
    assert (len(found.tokens), len(found.frames), len(found.log_probs), found.complete) == (0, 0, 0, False)
    assert found.score == -math.inf
    same([found], [wanted])
    assert found.state.frames == frames


@pytest.mark.parametrize("kind", ["lstm", "tdt", "stateless"])
@pytest.mark.parametrize("loop", [TransducerDecoder, FrameLoopingDecoder])
def test_an_utterance_that_is_none_costs_its_own_result_alone(kind, loop):
    arrays = {"lstm": ARRAYS, "tdt": TDT, "stateless": random_arrays(0, layers=0, context=2, groups=3)}[kind]
    durations = [0, 2, 5] if kind == "tdt" else None
    one = loop.from_arrays(arrays, 0, durations=durations, threads=2, tokenizer=str)
    before = one.decode([GOOD] * 4)
    batch = [GOOD, spoiled(np.nan), GOOD[:4], spoiled(-np.inf)]
    for states in (None, [h.state for h in before]):
        found = one.decode(batch, state=states, errors="return")
        good = one.decode([batch[0], batch[2]], state=states and [states[0], states[2]])
        same([found[0], found[2]], good)
        assert [h.error is None for h in found] == [True, False, True, False]
        assert found[0].complete and found[0].score == math.fsum(found[0].log_probs.tolist())
        nothing = one.decode([GOOD[:0]] * 2, state=states and states[1::2])
        for i, value in ((1, "nan"), (3, "-inf")):
            as_it_was(found[i], nothing[i // 2], frames=12 if states else 0)
            expected = f"encoder_output: expected finite values, got {value} in utterance {i}, frame 5, feature 3"
            error = found[i].error
            assert isinstance(error, InputError) and str(error) == expected
            assert (error.utterance, error.frame, error.feature, error.column) == (i, 5, 3, None)
            assert repr(found[i]) == f"TransducerHypothesis(error=InputError({expected!r}))"
        # the stream goes on as if the chunk had not been there
        again = one.decode([GOOD] * 4, state=[h.state for h in found])
        same([again[1]], one.decode([GOOD], state=states and [states[1]]))
    with pytest.raises(ValueError, match="got nan in utterance 1"):
        one.decode(batch)
    with pytest.raises(TypeError, match="expected float32 or float16"):
        one.decode([GOOD.astype(int)], errors="return")
    with pytest.raises(ValueError, match="errors: expected 'raise' or 'return', got None"):
        one.decode(batch, errors=None)


def test_what_the_network_computes_may_be_none():
    arrays = dict(ARRAYS, encoder_weight=np.full_like(ARRAYS["encoder_weight"], 9.0))
    one = TransducerDecoder.from_arrays(arrays, 0, activation="relu")
    found = one.decode([GOOD, spoiled(3e38)], errors="return")
    same(found[:1], one.decode([GOOD]))
    assert "the network's output is not finite in utterance 1, frame 5" in str(found[1].error)
    same(found[1:], one.decode([GOOD[:0]]))


def test_nan_beyond_the_length_is_not_read():
    assert len(decoder().decode([spoiled(np.nan)], [5])) == 1


def test_nan_in_a_frame_that_durations_pass_over():
    one = TransducerDecoder.from_arrays(random_arrays(0, durations=1), 0, durations=[12])
    with pytest.raises(ValueError, match="frame 5, feature 3"):
        one.decode([spoiled(np.nan)])


WEIGHTS = {
    "nan": ("encoder_weight", lambda w: np.where(w == w[1, 2], np.nan, w), r"encoder_weight: .* got nan at \[1, 2\]"),
    "inf": ("bias_hh_l1", lambda w: np.where(w == w[3], np.inf, w), r"bias_hh_l1: .* got inf at \[3\]"),
    "too large": (
        "embedding",
        lambda w: w.astype(float) + 1e39,
        r"embedding: expected finite float32 weights, got inf",
    ),
    "gates": ("weight_ih_l1", lambda w: w[:-1], r"weight_ih_l1: expected shape \[44, 11\], got \[43, 11\]"),
    "inputs": ("weight_ih_l0", lambda w: w[:, :-1], r"weight_ih_l0: expected shape \[44, 9\], got \[44, 8\]"),
    "units": ("weight_hh_l1", lambda w: w[:40, :10], r"weight_hh_l1: expected shape \[44, 11\], got \[40, 10\]"),
    "bias": ("bias_ih_l0", lambda w: w[:-1], r"bias_ih_l0: expected shape \[44\], got \[43\]"),
    "joint": ("prediction_weight", lambda w: w[:-1], r"prediction_weight: expected shape \[15, 11\], got \[14, 11\]"),
    "joint units": (
        "prediction_weight",
        lambda w: w[:, 1:],
        r"prediction_weight: expected shape \[15, 11\], got \[15, 10\]",
    ),
    "output": ("output_weight", lambda w: w[:, 1:], r"output_weight: expected shape \[13, 15\], got \[13, 14\]"),
    "output bias": ("output_bias", lambda w: w[1:], r"output_bias: expected shape \[13\], got \[12\]"),
    "dimensions": ("embedding", lambda w: w[0], r"embedding: expected \[tokens, size\].* got shape \[9\]"),
    "empty": (
        "embedding",
        lambda w: w[:0],
        r"embedding: expected \[tokens, size\], none of them 0, got shape \[0, 9\]",
    ),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights(case):
    name, spoil, message = WEIGHTS[case]
    with pytest.raises(ValueError, match=message):
        TransducerDecoder.from_arrays(dict(ARRAYS, **{name: spoil(ARRAYS[name])}), 0)


def test_outputs_that_do_not_fit_the_vocabulary():
    fewer = dict(ARRAYS, output_weight=ARRAYS["output_weight"][1:], output_bias=ARRAYS["output_bias"][1:])
    with pytest.raises(ValueError, match=r"output_weight: expected shape \[13, 15\] for 13 tokens, got \[12, 15\]"):
        TransducerDecoder.from_arrays(fewer, 0)
    with pytest.raises(ValueError, match=r"expected shape \[15, 15\] for 13 tokens and 2 durations, got \[16, 15\]"):
        TransducerDecoder.from_arrays(TDT, 0, durations=[0, 1])


def test_names_of_arrays():
    with pytest.raises(ValueError, match=r"unknown array encoder_wieght: expected some of bias_hh_l0"):
        TransducerDecoder.from_arrays(dict(ARRAYS, encoder_wieght=ARRAYS["encoder_weight"]), 0)
    with pytest.raises(ValueError, match=r"missing array weight_ih_l1"):
        TransducerDecoder.from_arrays({k: v for k, v in ARRAYS.items() if k != "weight_ih_l1"}, 0)
    with pytest.raises(ValueError, match=r"missing array embedding, .*: got none$"):
        TransducerDecoder.from_arrays({}, 0)
    with pytest.raises(ValueError, match=r"unknown array 3: expected some of"):
        TransducerDecoder.from_arrays({3: ARRAYS["embedding"]}, 0)


@pytest.mark.parametrize("arrays", [None, 3, list(ARRAYS.values())], ids=lambda arrays: type(arrays).__name__)
def test_arrays_that_have_no_names(arrays):
    expected = (
        f"arrays: expected a mapping of names to arrays, or the path of an .npz file, got {type(arrays).__name__}"
    )
    with pytest.raises(TypeError, match=expected):
        TransducerDecoder.from_arrays(arrays, 0)


def test_stateless_networks():
    arrays = random_arrays(0, layers=0, context=2, groups=3)
    with pytest.raises(ValueError, match=r"convolution: .* embedding of size 27, got \[33, 8, 2\], which does not fit"):
        TransducerDecoder.from_arrays(dict(arrays, convolution=arrays["convolution"][:, :8]), 0)
    with pytest.raises(ValueError, match=r"convolution_bias: expected shape \[33\], got \[32\]"):
        TransducerDecoder.from_arrays(dict(arrays, convolution_bias=arrays["convolution_bias"][1:]), 0)


OPTIONS = {
    "blank beyond": ({"blank_id": 13}, ValueError, r"blank_id: expected one of 13 tokens, 0 to 12, got 13"),
    "blank negative": ({"blank_id": -1}, ValueError, r"blank_id: expected one of 13 tokens, 0 to 12, got -1"),
    "blank real": ({"blank_id": 1.0}, TypeError, r"blank_id: expected a whole number, got float"),
    "no durations": ({"durations": []}, ValueError, r"durations: expected at least one, got none"),
    "negative duration": ({"durations": [0, -1]}, ValueError, r"durations\[1\]: expected at least 0 frames, got -1"),
    "huge duration": (
        {"durations": [2**31]},
        ValueError,
        r"durations\[0\]: expected at most 2,147,483,647 frames, got",
    ),
    "real duration": ({"durations": [0.5]}, TypeError, r"durations\[0\]: expected a whole number of frames, got float"),
    "a duration": ({"durations": 3}, TypeError, r"durations: expected whole numbers of frames, got int"),
    "max_symbols": ({"max_symbols": 0}, ValueError, r"max_symbols: expected a whole number of at least 1, got 0"),
    "huge max_symbols": ({"max_symbols": 2**31}, ValueError, r"max_symbols: .* at most 2,147,483,647, got 2147483648"),
    "real max_symbols": ({"max_symbols": 1.5}, TypeError, r"max_symbols: expected a whole number .* 1, got float"),
    "precision": ({"precision": "float8"}, ValueError, r"precision: expected float32 or bfloat16, got 'float8'"),
    "device": ({"device": "tpu"}, ValueError, r'device: expected "cpu"'),
    "threads": ({"threads": 0}, ValueError, r"threads: expected a whole number of at least 1"),
    "frame_shift": ({"frame_shift": 0}, ValueError, r"frame_shift: expected a number of seconds above 0"),
    "confidence": ({"confidence": "certain"}, ValueError, r'confidence: expected "max_prob" or "entropy"'),
    "activation": ({"activation": "gelu"}, ValueError, r"activation: expected one of tanh, relu, sigmoid, got 'gelu'"),
    "unknown": (
        {"beam_width": 3},
        TypeError,
        r"unknown option beam_width: expected one of arrays, blank_id, activation, relu, max_bytes, du",
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options(case):
    options, error, message = OPTIONS[case]
    with pytest.raises(error, match=message):
        TransducerDecoder.from_arrays(ARRAYS, **{"blank_id": 0, **options})


def test_kinds_of_networks():
    joint = Joint(*(ARRAYS[name] for name in ("encoder_weight", "prediction_weight", "output_weight")))
    with pytest.raises(TypeError, match=r"max_symbols: expected a whole number of at least 1, got None"):
        TransducerDecoder(StatelessPrediction(ARRAYS["embedding"]), joint, 0, max_symbols=None)
    with pytest.raises(TypeError, match=r"prediction: expected an arcbeam.transducer.LstmPrediction or .*, got dict"):
        TransducerDecoder(ARRAYS, joint, 0)
    with pytest.raises(TypeError, match=r"joint: expected an arcbeam.transducer.Joint, got dict"):
        TransducerDecoder(StatelessPrediction(ARRAYS["embedding"]), ARRAYS, 0)
    with pytest.raises(TypeError, match=r"expected at most 3 arguments without a name, got 4; .* durations=, "):
        TransducerDecoder(StatelessPrediction(ARRAYS["embedding"]), joint, 0, [0, 1])
    with pytest.raises(ValueError, match=r"layers: expected at least one LSTM layer, got none"):
        LstmPrediction(ARRAYS["embedding"], [])
    with pytest.raises(TypeError, match=r"weight_hh_l0: expected an array of floats, got int64"):
        LstmPrediction(ARRAYS["embedding"], [LstmLayer(ARRAYS["weight_ih_l0"], np.ones((44, 11), np.int64))])


CONFIDENCES = {
    "name": ({"name": "std"}, ValueError, r'confidence name: expected "max_prob" or "entropy", got \'std\''),
    "type": ({"entropy_type": "kl"}, ValueError, r"confidence entropy_type: expected"),
    "norm": ({"entropy_norm": "log"}, ValueError, r"confidence entropy_norm: expected"),
    "alpha": ({"alpha": 0.0}, ValueError, r"confidence alpha: expected a number above 0"),
    "text": ({"alpha": "1"}, TypeError, r"confidence alpha: expected a number above 0, got str"),
    "huge": (
        {"alpha": 1e9, "name": "max_prob"},
        ValueError,
        r"confidence alpha: expected a smaller number for 13 tokens, got 1000000000.0",
    ),
}


@pytest.mark.parametrize("case", CONFIDENCES)
def test_confidence(case):
    fields, error, message = CONFIDENCES[case]
    with pytest.raises(error, match=message):
        decoder(confidence=ConfidenceMethod(**fields))


def test_confidence_of_one_token():
    with pytest.raises(ValueError, match=r"confidence: expected a vocabulary of at least 2 tokens, got 1"):
        TransducerDecoder.from_arrays(random_arrays(0, tokens=1), 0, confidence="max_prob")


def test_states():
    one = decoder()
    [found] = one.decode([GOOD])
    state = found.state
    other = TransducerDecoder.from_arrays(TDT, 0, durations=[0, 1, 2]).decode([GOOD])[0].state
    replace = {
        "hidden": np.full_like(state.hidden, np.nan),
        "skip": -1,
        "frames": 2**62,
    }
    for states, error, message in [
        (state, TypeError, r"state: expected a sequence with one for each utterance, got TransducerState"),
        ([state, None], ValueError, r"state: expected one for each utterance, 1, got 2"),
        ([3], TypeError, r"state\[0\]: expected an arcbeam.TransducerState or None, got int"),
        ([other], ValueError, r"state\[0\]: expected hidden of shape \[2, 11\], got \[1, 11\]: it is of another"),
    ] + [
        ([arcbeam.TransducerState(**{**vars(state), name: value})], ValueError, r"state\[0\]: expected (finite|frames)")
        for name, value in replace.items()
    ]:
        with pytest.raises(error, match=message):
            one.decode([GOOD], state=states)
    assert len(one.decode([GOOD], state=[state])) == 1


@pytest.mark.parametrize(
    "name, value, got",
    [("skip", 1.5, "float"), ("skip", True, "bool"), ("frames", "a", "str"), ("frames", None, "NoneType")],
)
def test_states_of_no_whole_number_of_frames(name, value, got):
    one = decoder()
    state = one.decode([GOOD])[0].state
    with pytest.raises(TypeError, match=rf"state\[0\]: expected {name} to be a whole number, got {got}"):
        one.decode([GOOD], state=[arcbeam.TransducerState(**{**vars(state), name: value})])
    as_numpy = arcbeam.TransducerState(**{**vars(state), name: np.int32(getattr(state, name))})
    assert len(one.decode([GOOD], state=[as_numpy])) == 1


@pytest.mark.parametrize("layers, name, kind", [(2, "hidden", "floats"), (0, "context", "whole numbers")])
def test_states_of_other_types(layers, name, kind):
    one = TransducerDecoder.from_arrays(random_arrays(0, layers=layers), 0)
    state = one.decode([GOOD])[0].state
    wrong = np.full(getattr(state, name).shape, "a")
    with pytest.raises(TypeError, match=rf"state\[0\]: expected {name} of {kind}, got <U1"):
        one.decode([GOOD], state=[arcbeam.TransducerState(**{**vars(state), name: wrong})])


def test_a_context_of_tokens_that_do_not_exist():
    one = TransducerDecoder.from_arrays(random_arrays(0, layers=0), 0)
    state = one.decode([GOOD])[0].state
    state.context[0] = 13
    with pytest.raises(ValueError, match=r"state\[0\]: expected a context of tokens below 13, got \[13"):
        one.decode([GOOD], state=[state])


def test_weights_beyond_bfloat16():
    for name in ("embedding", "weight_hh_l0", "output_weight"):
        arrays = dict(ARRAYS, **{name: ARRAYS[name].copy()})
        arrays[name][2, 1] = 3.4e38
        TransducerDecoder.from_arrays(arrays, 0)
        with pytest.raises(ValueError, match=rf"{name}: expected weights up to 3.39e38, .* got 3.4e\+38 at \[2, 1\]"):
            TransducerDecoder.from_arrays(arrays, 0, precision="bfloat16")
