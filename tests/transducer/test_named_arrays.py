"""Weights in .npz files, as numpy.savez writes them: the decoders of the same mapping, and clear errors."""

import io
import pickle
import re
import zipfile

import numpy as np
import pytest

from arcbeam import FormatError, TransducerDecoder
from tests.transducer.archives import nemo_file, torch_file
from tests.transducer.networks import NETWORKS, random_arrays
from tests.transducer.test_loaders import arrays_of, decoded

PIECES = ["▁a", *"bcde", "▁f", *"ghijkl"]
OF_TDT = {"blank_id": 12, "durations": [0, 1, 2], "max_symbols": 3, "activation": "relu", "frame_shift": 0.08}


def write(path, arrays, **options):
    np.savez(path, **arrays, **options)
    return path


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_weights_alone(tmp_path, kind, save):
    arrays = random_arrays(6, blank=12, blank_bias=2.0, **NETWORKS[kind])
    options = {"durations": [0, 1, 2, 5] if "durations" in NETWORKS[kind] else None}
    save(tmp_path / "m.npz", **arrays)
    expected = decoded(TransducerDecoder.from_arrays(arrays, 12, **options))
    assert decoded(TransducerDecoder.from_arrays(tmp_path / "m.npz", 12, **options)) == expected
    assert decoded(TransducerDecoder.from_arrays(str(tmp_path / "m.npz"), blank_id=12, **options)) == expected
    with np.load(tmp_path / "m.npz") as opened:
        assert decoded(TransducerDecoder.from_arrays(opened, 12, **options)) == expected


def test_options_among_the_arrays(tmp_path):
    arrays = arrays_of("tdt")
    expected = TransducerDecoder.from_arrays(arrays, tokenizer=PIECES, **OF_TDT)
    path = write(tmp_path / "m.npz", arrays, tokenizer=PIECES, **OF_TDT)
    of_mapping = {**arrays, **{name: np.array(value) for name, value in OF_TDT.items()}, "tokenizer": PIECES}
    for source in (path, of_mapping):
        found = TransducerDecoder.from_arrays(source)
        assert (found.options, found.pieces) == (expected.options, expected.pieces)
        assert decoded(found) == decoded(expected)
    again = pickle.loads(pickle.dumps(TransducerDecoder.from_arrays(path)))
    assert (again.options, again.pieces) == (expected.options, expected.pieces)


def test_options_that_are_given_come_first(tmp_path):
    path = write(tmp_path / "m.npz", arrays_of("tdt"), tokenizer=PIECES, **OF_TDT)
    given = {"max_symbols": 1, "durations": [0, 1, 4], "activation": "tanh", "frame_shift": None}
    found = TransducerDecoder.from_arrays(path, tokenizer=None, **given)
    assert not found.has_text and found.options.blank_id == 12
    expected = TransducerDecoder.from_arrays(arrays_of("tdt"), 12, **given)
    assert found.options == expected.options and decoded(found) == decoded(expected)
    np.savez(path, **arrays_of("tdt"), **dict.fromkeys([*OF_TDT, "tokenizer"], "of no use"))
    found = TransducerDecoder.from_arrays(path, 12, tokenizer=None, **given)
    assert found.options == expected.options and decoded(found) == decoded(expected)
    with pytest.raises(ValueError, match=r"^activation: expected one of tanh, relu, sigmoid, got 'gelu'"):
        TransducerDecoder.from_arrays(path, 12, tokenizer=None, **{**given, "activation": "gelu"})
    with pytest.raises(ValueError, match=r"^blank_id: expected 12, which .*n\.npz has, or None, got 0"):
        TransducerDecoder.from_arrays(write(tmp_path / "n.npz", random_arrays(6, blank=12), blank_id=12), blank_id=0)
    with pytest.raises(TypeError, match=r"prediction: got the path 'm\.npz', which TransducerDecoder\.from_arrays, "):
        TransducerDecoder("m.npz")
    with pytest.raises(ValueError, match=r"^blank_id: expected one of 13 tokens, 0 to 12, got 13"):
        TransducerDecoder.from_arrays(path, 13, tokenizer=None, **given)


def test_a_relu_of_a_stateless_network(tmp_path):
    arrays = random_arrays(6, layers=0, context=2, groups=3, blank=12, blank_bias=2.0)
    plain, relu = (TransducerDecoder.from_arrays(arrays, 12, relu=relu) for relu in (False, True))
    assert decoded(plain) != decoded(relu)
    path = write(tmp_path / "m.npz", arrays, blank_id=12, relu=True)
    assert decoded(TransducerDecoder.from_arrays(path)) == decoded(relu)
    assert decoded(TransducerDecoder.from_arrays(path, relu=False)) == decoded(plain)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_types_of_values(tmp_path, dtype):
    arrays = {name: value.astype(dtype) for name, value in arrays_of("rnnt").items()}
    expected = TransducerDecoder.from_arrays({name: np.float32(value) for name, value in arrays.items()}, 12)
    assert decoded(TransducerDecoder.from_arrays(write(tmp_path / "m.npz", arrays), 12)) == decoded(expected)


def without(name):
    return lambda arrays: arrays.pop(name)


def changed(name, value):
    return lambda arrays: arrays.update({name: value(arrays.get(name)) if callable(value) else value})


WRONG = {
    "missing": (without("embedding"), r"arrays: missing array embedding: got bias_hh_l0, "),
    "missing layer": (without("weight_ih_l0"), r"arrays: missing array weight_ih_l0: got "),
    "unknown": (changed("light.first", np.ones(3)), r"arrays: unknown array light.first: expected some of bias_hh_l0"),
    "no blank": (without("blank_id"), r"expected an array blank_id, the blank's token, got none; give blank_id="),
    "shape": (changed("weight_hh_l0", lambda w: w[:, 1:]), r"weight_hh_l0: expected shape \[40, 10\], got \[44, 10\]"),
    "dimensions": (changed("embedding", lambda w: w[0]), r"embedding: expected \[tokens, size\].* got shape \[9\]"),
    "rows": (changed("output_weight", lambda w: w[1:]), r"output_bias: expected shape \[15\], got \[16\]"),
    "units": (changed("prediction_weight", lambda w: w[:, 1:]), r"prediction_weight: expected shape \[15, 11\], got "),
    "integers": (changed("encoder_weight", np.ones((15, 7), int)), r"encoder_weight: expected an array of floats, got"),
    "nan": (changed("encoder_bias", np.full(15, np.nan)), r"encoder_bias: expected finite float32 weights, got nan at"),
    "text of a blank": (changed("blank_id", "12"), r"blank_id: expected a whole number, got <U2 of shape \[\]"),
    "blanks": (changed("blank_id", [12]), r"blank_id: expected a whole number, got int64 of shape \[1\]"),
    "blank beyond": (changed("blank_id", 13), r"blank_id: expected one of 13 tokens, 0 to 12, got 13"),
    "durations": (
        changed("durations", [0, 1.5, 2]),
        r"durations: expected whole numbers \[durations\], got float64 of ",
    ),
    "negative duration": (changed("durations", [0, 1, -1]), r"durations\[2\]: expected at least 0 frames, got -1"),
    "few durations": (changed("durations", [0, 1]), r"output_weight: expected shape \[15, 15\] for 13 tokens and 2 "),
    "activation": (changed("activation", "gelu"), r"activation: expected one of tanh, relu, sigmoid, got 'gelu'"),
    "relu": (changed("relu", "yes"), r"relu: expected a boolean, got <U3 of shape \[\]"),
    "symbols": (changed("max_symbols", 0), r"max_symbols: expected a whole number of at least 1, got 0"),
    "frames": (changed("frame_shift", -1.0), r"frame_shift: expected a number of seconds above 0"),
    "pieces": (changed("tokenizer", PIECES[:4]), r"tokenizer: expected 13 pieces, or 12 without the blank, got 4"),
    "no pieces": (changed("tokenizer", [1, 2]), r"tokenizer: expected pieces that are text \[tokens\], got int64 of "),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit(tmp_path, case):
    """An error of a file names it; one of a mapping is the same without a file's name."""
    spoil, message = WRONG[case]
    arrays = {**arrays_of("tdt"), **{name: np.array(value) for name, value in OF_TDT.items()}}
    spoil(arrays)
    with pytest.raises(FormatError, match=rf"m\.npz: {message}"):
        TransducerDecoder.from_arrays(write(tmp_path / "m.npz", arrays))
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        TransducerDecoder.from_arrays(arrays)
    assert "m.npz" not in str(caught.value)


class Harm:
    """What a pickle may do where it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("an object in the file was loaded",))


def test_objects_are_never_loaded(tmp_path):
    harmful = np.array([Harm(), None])
    for name in ("embedding", "blank_id", "tokenizer", "other"):
        path = write(tmp_path / "m.npz", {**arrays_of("rnnt"), "blank_id": 12, name: harmful})
        with pytest.raises(FormatError, match=rf"m\.npz: array '{name}': expected numbers or text, got Python objects"):
            TransducerDecoder.from_arrays(path)
    arrays = {**arrays_of("rnnt"), "blank_id": np.array(12, object)}
    with pytest.raises(ValueError, match=r"^blank_id: expected a whole number, got object of shape \[\]"):
        TransducerDecoder.from_arrays(arrays)


def test_files_that_are_none(tmp_path):
    path = tmp_path / "m.npz"
    with pytest.raises(FileNotFoundError):
        TransducerDecoder.from_arrays(path)
    with pytest.raises(IsADirectoryError):
        TransducerDecoder.from_arrays(tmp_path)
    path.write_bytes(b"not an archive" * 9)
    with pytest.raises(FormatError, match=r"m\.npz: expected a \.npz file, got one that does not begin like a zip"):
        TransducerDecoder.from_arrays(path)
    whole = write(path, arrays_of("rnnt"), blank_id=12).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match=r"m\.npz: expected an archive of arrays in NumPy's format, got one that is"):
        TransducerDecoder.from_arrays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("embedding", b"no array")
    with pytest.raises(FormatError, match=r"m\.npz: 'embedding' in the archive is not an array"):
        TransducerDecoder.from_arrays(path)


def test_what_a_file_may_unpack_to(tmp_path):
    """A few kilobytes of zeros stand for many megabytes, and small weights for huge tables."""
    arrays = {**arrays_of("rnnt"), "embedding": np.zeros((1_000_000, 9), np.float32)}
    np.savez_compressed(tmp_path / "m.npz", **arrays)
    with pytest.raises(FormatError, match=r"m\.npz: expected at most 33,554,432 bytes of content .* raise max_bytes"):
        TransducerDecoder.from_arrays(tmp_path / "m.npz", 12)
    arrays["embedding"] = np.zeros((100_000, 9), np.float32)
    arrays["output_weight"], arrays["output_bias"] = np.zeros((100_000, 15), np.float32), np.zeros(100_000, np.float32)
    wide = np.zeros((4 * 100, 9), np.float32), np.zeros((4 * 100, 100), np.float32), np.zeros((15, 100), np.float32)
    for name in [name for name in arrays if name.endswith(("_l0", "_l1"))]:
        del arrays[name]
    arrays["weight_ih_l0"], arrays["weight_hh_l0"], arrays["prediction_weight"] = wide
    np.savez_compressed(tmp_path / "m.npz", **arrays)
    with pytest.raises(FormatError, match=r"bytes of tables of the prediction network .* raise max_bytes"):
        TransducerDecoder.from_arrays(tmp_path / "m.npz", 12)


def test_an_archive_in_memory_is_no_path():
    with pytest.raises(TypeError, match=r"arrays: expected a mapping of names to arrays, or the path of an \.npz file"):
        TransducerDecoder.from_arrays(io.BytesIO(b""), 0)


def test_models_of_another_kind(demo_data, tmp_path):
    """Each constructor names the one that reads the file."""
    of_torch = tmp_path / "m.pt"
    of_torch.write_bytes(torch_file({"w": np.zeros(3, np.float32)}))
    nemo = nemo_file(tmp_path / "m.nemo", "{}", None)
    (tmp_path / "tokens.txt").write_text("a 0\nb 1\nc 2\n")
    arrays, icefall, of_nemo = (getattr(TransducerDecoder, f"from_{name}") for name in ("arrays", "icefall", "nemo"))
    for read, path, got in [
        (of_nemo, demo_data / "transducer.npz", "an .npz of NumPy, which TransducerDecoder.from_arrays reads"),
        (icefall, demo_data / "transducer.npz", "an .npz of NumPy, which TransducerDecoder.from_arrays reads"),
        (arrays, of_torch, "a file of torch.save, which TransducerDecoder.from_icefall reads"),
        (of_nemo, of_torch, "a file of torch.save, which TransducerDecoder.from_icefall reads"),
        (icefall, nemo, "a tar archive, such as a .nemo, which TransducerDecoder.from_nemo reads"),
        (arrays, nemo, "a tar archive, such as a .nemo, which TransducerDecoder.from_nemo reads"),
        (icefall, demo_data / "0870.flac", "audio (FLAC)"),
        (icefall, tmp_path / "tokens.txt", "a table of symbols and their numbers, as tokens= (--tokens) and "),
    ]:
        with pytest.raises(FormatError, match=rf"^{re.escape(str(path))}: expected .*, got {re.escape(got)}"):
            read(path)


def test_weights_of_a_language_model_that_is_not_there():
    arrays = arrays_of("rnnt")
    for option in ({"ngram_lm_alpha": 0.5}, {"ngram_lm_tokens": ["a"] * 12}):
        with pytest.raises(ValueError, match=rf"^{next(iter(option))}: expected ngram_lm_model, too, .* leave it out"):
            TransducerDecoder.from_arrays(arrays, 12, **option)
    assert TransducerDecoder.from_arrays(arrays, 12, ngram_lm_alpha=0.2, device="cpu").options.ngram_lm_alpha == 0.2
