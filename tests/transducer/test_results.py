"""What a hypothesis says beside its tokens: times, confidence, text."""

import copy
import io
import json
import math
import os
import pickle
import warnings

import numpy as np
import pytest

from arcbeam import FormatError, TransducerDecoder
from arcbeam.transducer import ConfidenceMethod
from arcbeam.transducer.network import from_mapping
from arcbeam.transducer.text import detokenizer
from tests.transducer import oracle
from tests.transducer.equality import same
from tests.transducer.networks import random_arrays, random_frames

ARRAYS = random_arrays(4, blank=12, blank_bias=2.0)
FRAMES = random_frames(4, 60)


def decode(**options):
    return TransducerDecoder.from_arrays(ARRAYS, 12, **{"threads": 1, **options}).decode([FRAMES])[0]


@pytest.fixture(scope="module")
def written():
    return oracle.decode(ARRAYS, FRAMES, 12)


def formula(method, x):
    """NeMo's measures in float64: x are the log-probs of all tokens, v their number, t alpha."""
    v, t = len(x), method.alpha
    if method.name == "max_prob":
        return (np.exp(x.max() * t) * v**t - 1) / (v**t - 1)
    power, weighted = np.exp(x * t).sum(), (np.exp(x * t) * x).sum()
    entropy_type = "gibbs" if t == 1 else method.entropy_type
    if entropy_type == "gibbs":
        if method.entropy_norm == "lin":
            return 1 + weighted / np.log(v) / v ** (1 - t)
        least = v ** (-t * v ** (1 - t))
        return (np.exp(weighted * t) - least) / (1 - least)
    if entropy_type == "tsallis":
        if method.entropy_norm == "lin":
            return 1 + (1 - power) / (v ** (1 - t) - 1)
        least = np.exp((1 - v ** (1 - t)) / (1 - t))
        return (np.exp((1 - power) / (1 - t)) - least) / (1 - least)
    if method.entropy_norm == "lin":
        return 1 + np.log2(power) / (t - 1) / np.log2(v)
    return (power ** (1 / (t - 1)) * v - 1) / (v - 1)


METHODS = [ConfidenceMethod(name="max_prob", alpha=alpha) for alpha in (1.0, 0.5)] + [
    ConfidenceMethod(entropy_type=kind, entropy_norm=norm, alpha=alpha)
    for kind in ("gibbs", "tsallis", "renyi")
    for norm in ("lin", "exp")
    for alpha in (1.0, 0.33, 0.7)
]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.name}-{m.entropy_type}-{m.entropy_norm}-{m.alpha}")
def test_confidence_follows_its_formula(method, written):
    expected = []
    for logits in written.logits:
        x = logits.astype(np.float64) - logits.max()
        expected.append(formula(method, x - np.log(np.exp(x).sum())))
    found = decode(confidence=method).confidence
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)
    assert len(found) > 10


def test_names_of_confidence_are_methods():
    assert (
        decode(confidence="max_prob").confidence.tobytes()
        == decode(confidence=ConfidenceMethod(name="max_prob")).confidence.tobytes()
    )
    assert (
        decode(confidence="entropy").confidence.tobytes() == decode(confidence=ConfidenceMethod()).confidence.tobytes()
    )
    assert decode().confidence is None


def test_certain_is_one_and_uniform_is_zero():
    arrays = {name: np.zeros_like(value) for name, value in ARRAYS.items()}
    for logit, expected in ((1e-3, 0.0), (60.0, 1.0)):
        arrays["output_bias"][3] = logit
        for method in METHODS:
            one = TransducerDecoder.from_arrays(arrays, 12, confidence=method, threads=1)
            np.testing.assert_allclose(one.decode([FRAMES])[0].confidence, expected, atol=2e-3)


def test_log_probs(written):
    logits = np.array(written.logits, np.float64)
    expected = logits.max(1) - np.log(np.exp(logits).sum(1))
    np.testing.assert_allclose(decode().log_probs, expected, atol=1e-6)


def test_times():
    assert decode().times is None
    found = decode(frame_shift=0.08)
    assert found.times.tolist() == (found.frames * 0.08).tolist()
    assert "tokens" in repr(found)


def test_text_of_pieces():
    pieces = ["\u2581the", "\u2581c", "at", "s", "<0xC3>", "<0xA9>", *(f"\u2581{i}" for i in range(6))]
    ids = [0, 1, 2, 3, 4, 5, 0]
    assert detokenizer(pieces, 13)(ids) == "the catsé the"
    assert detokenizer([*pieces, "<blk>"], 13)(ids) == "the catsé the"
    found = decode(tokenizer=pieces)
    assert pickle.loads(pickle.dumps(found)).text == found.text
    assert found.text == detokenizer(pieces, 13)(found.tokens.tolist())
    assert found.text in repr(found)


def test_text_of_a_function():
    assert decode(tokenizer=lambda ids: f"{len(ids)} tokens").text == f"{len(decode().tokens)} tokens"


def test_text_of_a_sentencepiece_model(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece", reason="the package reads SentencePiece models")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a cat sat on the mat", "the cats sat"] * 9),
        model_writer=model,
        vocab_size=20,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path = tmp_path / "pieces.model"
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    size = processor.get_piece_size()
    decoder = TransducerDecoder.from_arrays(random_arrays(4, tokens=size + 1, blank=size), size, tokenizer=path)
    [found] = decoder.decode([FRAMES])
    assert pickle.loads(pickle.dumps(decoder)).decode([FRAMES])[0].text == found.text
    assert pickle.loads(pickle.dumps(found)).text == found.text
    assert found.text == " ".join(processor.decode([i for i in found.tokens.tolist() if i < size]).split())
    with pytest.raises(ValueError, match=rf"tokenizer: expected 13 pieces, or 12 without the blank, got {size} in"):
        decode(tokenizer=path)
    path.write_bytes(b"nothing")
    with pytest.raises(FormatError, match=r"pieces.model: expected a SentencePiece model"):
        decode(tokenizer=str(path))


def test_pieces_that_lack_a_blank_within_them_are_warned_of():
    arrays = random_arrays(4, tokens=13, blank=0)
    with pytest.warns(UserWarning, match=r"^tokenizer: expected 13 pieces, because the blank, token 0, is not"):
        TransducerDecoder.from_arrays(arrays, 0, tokenizer=PIECES[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TransducerDecoder.from_arrays(arrays, 0, tokenizer=PIECES)
        TransducerDecoder.from_arrays(random_arrays(4, tokens=13, blank=12), 12, tokenizer=PIECES[:-1])


def test_tokenizers_that_do_not_fit():
    with pytest.raises(ValueError, match=r"text: the decoder has no tokenizer"):
        _ = decode().text
    with pytest.raises(ValueError, match=r"tokenizer: expected 13 pieces, or 12 without the blank, got 3"):
        decode(tokenizer=["a", "b", "c"])
    with pytest.raises(TypeError, match=r"tokenizer: expected pieces that are strings, got int"):
        decode(tokenizer=[1] * 13)
    with pytest.raises(TypeError, match=r"tokenizer: expected the path of a SentencePiece model, .*, got int"):
        decode(tokenizer=3)
    for path, error in (("nowhere.model", FileNotFoundError), (os.curdir, IsADirectoryError)):
        with pytest.raises(error) as caught:
            decode(tokenizer=path)
        assert (caught.value.errno > 0, caught.value.filename) == (True, path)


def joined(ids):
    return "-".join(map(str, ids))


def test_a_pickled_decoder_is_made_anew():
    tdt = random_arrays(4, durations=3, layers=2, blank=12, blank_bias=2.0)
    made = {
        "pieces": TransducerDecoder.from_arrays(ARRAYS, 12, threads=2, tokenizer=list("abcdefghijkl"), max_symbols=3),
        "function": TransducerDecoder.from_arrays(ARRAYS, 12, threads=1, tokenizer=joined, precision="bfloat16"),
        "numbers": TransducerDecoder(
            *from_mapping(tdt, "relu", False), 12, durations=[0, 1, 2], confidence=ConfidenceMethod(alpha=0.5),
            frame_shift=0.08, device="cpu", threads=1,
        ),
    }  # fmt: skip
    for name, decoder in made.items():
        wanted = decoder.decode([FRAMES, FRAMES[:9]])
        for again in (pickle.loads(pickle.dumps(decoder)), copy.copy(decoder), copy.deepcopy(decoder)):
            assert again is not decoder and again.options == decoder.options
            found = again.decode([FRAMES, FRAMES[:9]])
            same(found, wanted)
            if name != "numbers":
                assert [h.text for h in found] == [h.text for h in wanted]
            else:
                assert found[0].times.tobytes() == wanted[0].times.tobytes()


def test_weights_that_change_later_change_no_decoder():
    arrays = {name: array.copy() for name, array in ARRAYS.items()}
    decoder = TransducerDecoder.from_arrays(arrays, 12, threads=1)
    wanted = decoder.decode([FRAMES])
    for array in arrays.values():
        array[:] = 0
    same(pickle.loads(pickle.dumps(decoder)).decode([FRAMES]), wanted)


def test_a_tokenizer_that_cannot_be_pickled():
    decoder = TransducerDecoder.from_arrays(ARRAYS, 12, threads=1, tokenizer=lambda ids: "x")
    with pytest.raises(
        TypeError, match=r"tokenizer: expected one that can be pickled, .* got <function .*lambda.*\(.+\);"
    ):
        pickle.dumps(decoder)
    assert copy.copy(decoder).decode([FRAMES])[0].text == copy.deepcopy(decoder).decode([FRAMES])[0].text == "x"


def pieces_of(ids):
    """A tokenizer that can be pickled, and that is not to travel with every hypothesis."""
    return " ".join(PIECES[i] for i in ids)


PIECES = [f"piece{i}" for i in range(13)]


@pytest.mark.parametrize("tokenizer", [None, PIECES, pieces_of, lambda ids: "x" * len(ids)])
def test_a_pickled_hypothesis_leaves_its_tokenizer_behind(tokenizer):
    more = {"threads": 1, "confidence": "entropy", "frame_shift": 0.08, "tokenizer": tokenizer}
    decoder = TransducerDecoder.from_arrays(ARRAYS, 12, **more)
    spoiled = np.full_like(FRAMES[:1], np.nan)
    for found in decoder.decode([FRAMES, FRAMES[:0], spoiled], errors="return"):
        data = pickle.dumps(found)
        again = pickle.loads(data)
        same([again], [found])
        assert again.to_dict() == found.to_dict()
        assert repr(again) == repr(found)
        assert (again.score, again.complete, str(again.error)) == (found.score, found.complete, str(found.error))
        text = 0 if tokenizer is None else 2 * len(found.text)  # that of its words, too, of which there is one here
        state = found.state.hidden.nbytes + found.state.cell.nbytes
        assert len(data) < 1600 + text + state + 24 * len(found.tokens)
        assert b"pieces_of" not in data and b"transducer_text" not in data
        if tokenizer is None:
            with pytest.raises(ValueError, match="text: the decoder has no tokenizer"):
                _ = again.text


def test_as_a_dictionary():
    (found,) = TransducerDecoder.from_arrays(ARRAYS, 12, threads=1, tokenizer=pieces_of).decode([FRAMES])
    values = found.to_dict()
    assert list(values) == [
        "text", "words", "tokens", "frames", "times", "durations", "log_probs", "confidence", "score", "complete",
        "error",
    ]  # fmt: skip
    assert (values["text"], values["words"]) == (found.text, None)
    assert (values["tokens"], values["frames"]) == (found.tokens.tolist(), found.frames.tolist())
    assert values["log_probs"] == found.log_probs.astype(float).tolist()
    assert (values["times"], values["durations"], values["confidence"], values["error"]) == (None, None, None, None)
    assert values["score"] == math.fsum(values["log_probs"])
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    spoiled = np.full_like(FRAMES, np.inf)
    (bad,) = TransducerDecoder.from_arrays(ARRAYS, 12, threads=1).decode([spoiled], errors="return")
    values = bad.to_dict()
    assert (values["text"], values["tokens"], values["score"], values["complete"]) == (None, [], None, False)
    assert values["error"] == "encoder_output: expected finite values, got inf in utterance 0, frame 0, feature 0"


def test_one_array_is_one_utterance():
    decoder = TransducerDecoder.from_arrays(ARRAYS, 12, threads=1, tokenizer=str)
    wanted, half = decoder.decode([FRAMES, FRAMES[:31]])
    same([decoder.decode(FRAMES), decoder.decode(FRAMES.astype(np.float64))], [wanted] * 2)
    same([decoder.decode(FRAMES, 31)], [half])
    same(decoder.decode(np.stack([FRAMES] * 2), np.arange(60) < np.array([[60], [31]])), [wanted, half])
    first = decoder.decode(FRAMES[:31])
    for state in (first.state, [first.state]):
        same([decoder.decode(FRAMES[31:], state=state)], decoder.decode([FRAMES[31:]], state=[half.state]))
    assert str(wanted) == wanted.text != ""
    without = TransducerDecoder.from_arrays(ARRAYS, 12, threads=1).decode(FRAMES)
    assert str(without) == repr(without) == f"TransducerHypothesis({len(wanted.tokens)} tokens)"
