"""Tiny models in ONNX files with random weights: the tokens, texts and times of onnx-asr's own greedy decoding."""

import wave

import numpy as np
import pytest

import arcbeam

for needed in ("onnx", "onnxruntime", "onnx_asr"):
    pytest.importorskip(needed, reason=f"{needed} is missing")

from tests.adapters import onnx_models as models  # noqa: E402
from tests.adapters.onnx_models import LETTERS, PIECES, recordings  # noqa: E402
from tests.package.test_guide import examples  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:log_probs. expected the blank:UserWarning")


def gigaam_ctc(folder):
    """With letters, of which one stands between words."""
    models.ctc_model(folder / "v2_ctc.onnx", len(LETTERS) + 1, 64, 4, ("features", "feature_lengths", "log_probs"))
    models.vocabulary(folder / "v2_vocab.txt", [*LETTERS, "<blk>"])


def kaldi_ctc(folder):
    names = ["<blk>", *PIECES]
    inputs = ("x", "x_lens", "log_probs", "log_probs_len")
    models.kaldi_encoder(folder / "model.onnx", len(names), inputs, log_softmax=True)
    models.vocabulary(folder / "tokens.txt", [*names, "#0"])


def blank_in_the_middle(folder):
    models.ctc_model(folder / "model.onnx", 9)
    models.vocabulary(folder / "vocab.txt", [*PIECES[:4], "<blk>", *PIECES[4:8]])


def without_config(folder):
    models.nemo_ctc(folder, PIECES)
    (folder / "config.json").unlink()


def without_ids(folder):
    models.nemo_ctc(folder, PIECES)
    (folder / "vocab.txt").write_text("\n".join([*PIECES, "<blk>"]))


def weights_as_inputs(folder):
    """As exporters of 2019 have them."""
    models.nemo_transducer(folder)

    def listed(graph):
        for one in graph.initializer:
            graph.input.append(models.helper.make_tensor_value_info(one.name, one.data_type, one.dims))

    models.broken(folder, "decoder_joint-model.onnx", listed)


def icefall(folder):
    models.kaldi_transducer(folder, ["<blk>", *PIECES], "-epoch-9-avg-1")


CTC = {  # how to make the folder, seconds a frame, and the type where no file says it
    "nemo": (lambda folder: models.nemo_ctc(folder, PIECES), 0.08, None),
    "nemo, without config.json": (without_config, 0.08, None),
    "tokens without ids": (without_ids, 0.08, None),
    "gigaam": (gigaam_ctc, 0.04, "gigaam-v2-ctc"),
    "kaldi": (kaldi_ctc, 0.04, None),
    "blank in the middle": (blank_in_the_middle, 0.08, None),
}  # fmt: skip
TRANSDUCERS = {
    "nemo rnnt": (models.nemo_transducer, 0.08, 10),
    "nemo tdt": (lambda folder: models.nemo_transducer(folder, durations=5), 0.08, 10),
    "three tokens a frame": (lambda folder: models.nemo_transducer(folder, max_tokens_per_step=3), 0.08, 3),
    "one layer": (lambda folder: models.nemo_transducer(folder, layers=1), 0.08, 10),
    "float16 weights": (lambda folder: models.nemo_transducer(folder, half=True), 0.08, 10),
    "external data": (lambda folder: models.nemo_transducer(folder, external=True), 0.08, 10),
    "sherpa-onnx nemo rnnt": (models.sherpa_nemo_transducer, 0.04, 10),
    "sherpa-onnx nemo tdt": (lambda folder: models.sherpa_nemo_transducer(folder, durations=5), 0.04, 10),
    "gigaam": (models.gigaam_transducer, 0.04, 3),
    "sherpa-onnx icefall": (icefall, 0.04, 1),
    "icefall by script": (
        lambda folder: models.kaldi_transducer(folder, ["<blk>", *PIECES], condition=True), 0.04, 1
    ),
    "weights that are inputs, too": (weights_as_inputs, 0.08, 10),
    "vosk": (lambda folder: models.kaldi_transducer(folder / "am", ["<blk>", *PIECES]), 0.04, 1),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model").mkdir()
    return tmp_path / "model"


def compare(model, found, tokens_of):
    """Compares hypotheses with onnx-asr's own of each recording; `tokens_of`: the tokens and times of a hypothesis."""
    written = set()
    for audio, one in zip(recordings(), found, strict=True):
        theirs = model.onnx_asr.with_timestamps().recognize(audio)
        tokens, times = tokens_of(one)
        assert [token.replace("\u2581", " ") for token in tokens] == theirs.tokens
        assert str(one) == theirs.text
        assert " ".join(word.word for word in one.words) == " ".join(theirs.text.split())
        assert times == theirs.timestamps
        written |= set(tokens)
    assert len(written) > 3


@pytest.mark.parametrize("kind", CTC)
def test_the_tokens_of_ctc_models(folder, kind):
    make, shift, model_type = CTC[kind]
    make(folder)
    model = arcbeam.from_onnx(folder, model_type=model_type, device="cpu")
    assert isinstance(model, arcbeam.OnnxCtcModel) and model.sample_rate == 16000
    assert model.decoder.options.frame_shift == pytest.approx(shift)

    def tokens_of(one):
        return [label.label for label in one.labels], [shift * label.start_frame for label in one.labels]

    compare(model, model.transcribe(recordings(), frame_confidence="max_prob"), tokens_of)


@pytest.mark.parametrize("kind", TRANSDUCERS)
def test_the_tokens_of_transducers(folder, kind):
    make, shift, max_symbols = TRANSDUCERS[kind]
    make(folder)
    model = arcbeam.from_onnx(folder, device="cpu")
    assert isinstance(model, arcbeam.OnnxTransducerModel)
    assert model.decoder.options.frame_shift == pytest.approx(shift)
    assert model.decoder.options.max_symbols == max_symbols
    assert model.decoder.options.durations == ((0, 1, 2, 3, 4) if "tdt" in kind else None)

    def tokens_of(one):
        return [model.decoder.pieces[token] for token in one.tokens], [shift * int(frame) for frame in one.frames]

    compare(model, model.transcribe(recordings()), tokens_of)


def test_the_weights_are_those_of_the_files(folder):
    """Also in float16, and in int8 to half a step of its scale."""
    from onnxruntime.quantization import quantize_dynamic

    from arcbeam.adapters.onnx_weights import read_network

    path = folder / "decoder_joint-model.onnx"
    arrays = models.nemo_transducer(folder, durations=5)
    network = read_network([path])
    assert network.arrays.keys() == arrays.keys() and (network.tokens, network.outputs) == (13, 18)
    for name, value in arrays.items():
        np.testing.assert_array_equal(network.arrays[name], value)
    quantize_dynamic(path, folder / "small.int8.onnx")
    small = read_network([folder / "small.int8.onnx"])
    for name, value in arrays.items():
        step = 0 if "bias" in name else max(np.ptp(np.append(value, 0)) / 255, np.abs(value).max() / 127)
        assert np.abs(small.arrays[name] - value).max() <= 0.51 * step
    assert not np.array_equal(small.arrays["embedding"], arrays["embedding"])
    models.decoder_joint(path, arrays, half=True)
    for name, value in read_network([path]).arrays.items():
        np.testing.assert_array_equal(value, arrays[name].astype(np.float16))


@pytest.mark.parametrize("kind", ["nemo rnnt", "sherpa-onnx nemo tdt", "sherpa-onnx icefall"])
def test_an_int8_export_alone_and_with_the_files_of_the_networks(folder, kind):
    from onnxruntime.quantization import quantize_dynamic

    TRANSDUCERS[kind][0](folder)
    exact = arcbeam.from_onnx(folder, device="cpu")
    for path in folder.glob("*.onnx"):
        quantize_dynamic(path, path.with_name(f"{path.stem}.int8.onnx"))
    mixed = arcbeam.from_onnx(folder, quantization="int8", device="cpu")
    theirs, ours = exact.encode(recordings()), mixed.encode(recordings())
    assert all(one.shape == other.shape for one, other in zip(ours, theirs, strict=True))
    assert not np.array_equal(ours[0], theirs[0])  # the acoustic model is quantised, the other networks are not:
    scores = [one.log_probs.tolist() for one in exact.decoder.decode(theirs)]
    assert [one.log_probs.tolist() for one in mixed.decoder.decode(theirs)] == scores
    for path in folder.glob("*.onnx"):
        if not path.stem.endswith(".int8"):
            path.unlink()
    alone = arcbeam.from_onnx(folder, quantization="int8", device="cpu")
    assert [one.log_probs.tolist() for one in alone.decoder.decode(theirs)] != scores
    assert len(alone.transcribe(recordings())) == 3
    with pytest.raises(FileNotFoundError, match=r"encoder\S*\.int8\.onnx.*: quantization= names one"):
        arcbeam.from_onnx(folder)


def arpa(path):
    words = "".join(f"-1 {word}\n" for word in ("abc", "d", "hj", "dk"))
    path.write_text(f"\\data\\\nngram 1=6\n\n\\1-grams:\n-1 <s>\n-1 </s>\n{words}\n\\end\\\n")
    return path


@pytest.mark.filterwarnings("ignore:.*words are cut into the longest pieces:UserWarning")
def test_a_language_model_with_everything_that_a_decoder_gives(folder, tmp_path):
    pytest.importorskip("kaldifst", reason="kaldifst is missing")
    models.nemo_ctc(folder, PIECES)
    model = arcbeam.from_onnx(folder, arpa(tmp_path / "lm.arpa"), cache=False, device="cpu", acoustic_scale=0.5)
    found = model.transcribe(recordings(), nbest=5, confidence=True, boost=arcbeam.Boost({"hj": 2.0}), lattice=True)
    assert isinstance(found, arcbeam.Hypotheses) and all(len(one.nbest) == 5 and one.lattice for one in found)
    words = [word for one in found for word in one.words]
    assert {word.word for word in words} <= {"abc", "d", "hj", "dk"} and len(words) > 3
    assert all(0 <= word.confidence <= 1 and word.end - word.start >= 0.079 for word in words)
    encoded = model.encode(recordings())
    assert all(rows.dtype == np.float32 and rows.shape[1] == 13 for rows in encoded)
    np.testing.assert_allclose(np.exp(encoded[0]).sum(1), 1, rtol=1e-5)
    again = model.decoder.decode(encoded, nbest=5, confidence=True, boost=arcbeam.Boost({"hj": 2.0}), lattice=True)
    assert [one.to_dict() for one in again] == [one.to_dict() for one in found]
    only = arcbeam.from_onnx(folder, words=["bc", "hj"], cache=False, device="cpu").transcribe(recordings())
    assert {word.word for one in only for word in one.words} <= {"bc", "hj"}


def test_options_of_a_transducer(folder):
    models.nemo_transducer(folder, durations=3)
    options = {"confidence": "entropy", "durations": [0, 1, 2], "max_symbols": 2}
    model = arcbeam.from_onnx(folder, transducer=options, device="cpu", frame_shift=0.1)
    one = model.transcribe(recordings()[2])
    assert model.decoder.options.frame_shift == 0.1 and model.decoder.options.max_symbols == 2
    assert len(one.tokens) and all(0 <= value <= 1 for value in one.confidence)
    tree = arcbeam.BoostingTree(["abc"], model.decoder.pieces)
    assert model.transcribe([recordings()[2]], boost=tree)[0].score != one.score


def test_audio_of_files(folder):
    soundfile = pytest.importorskip("soundfile", reason="soundfile is missing")
    models.nemo_ctc(folder, PIECES)
    model = arcbeam.from_onnx(folder, device="cpu")
    whole = [np.round(audio * 32767).astype(np.int16) for audio in recordings()]
    of_arrays = model.transcribe([audio.astype(np.float32) / 32768 for audio in whole])
    for suffix in ("wav", "flac"):
        paths = [folder / f"{i}.{suffix}" for i in range(3)]
        for path, audio in zip(paths, whole, strict=True):
            soundfile.write(path, audio, 16000)
        assert [one.to_dict() for one in model.transcribe(paths)] == [one.to_dict() for one in of_arrays]
    assert model.transcribe(str(paths[1])).to_dict() == of_arrays[1].to_dict()
    with wave.open(str(paths[0].with_suffix(".wav"))) as file:
        assert file.getframerate() == 16000
    stereo = np.stack([recordings()[0], np.zeros(16000, np.float32)], axis=1)
    assert str(model.transcribe(stereo, channel=0)) == str(model.transcribe(recordings()[0]))
    soundfile.write(folder / "stereo.wav", stereo, 16000, subtype="FLOAT")
    assert str(model.transcribe(folder / "stereo.wav", channel=0)) == str(model.transcribe(recordings()[0]))
    assert model.transcribe(stereo, channel="mean").text != model.transcribe(stereo, channel=1).text
    with pytest.warns(
        UserWarning, match=r"^fewer than the model's 16,000 samples a second, so .* trained with: audio$"
    ):
        slow = model.encode(recordings()[0], sample_rate=8000)  # the same samples last twice as long
    assert len(slow) == pytest.approx(2 * len(model.encode(recordings()[0])), abs=1)


def test_a_wav_needs_no_package(folder, monkeypatch):
    import sys

    models.nemo_ctc(folder, PIECES)
    model = arcbeam.from_onnx(folder, device="cpu")
    whole = np.round(recordings()[0] * 32767).astype(np.int16)
    with wave.open(str(folder / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16000, len(whole), "NONE", "not compressed"))
        file.writeframes(whole.tobytes())
    (folder / "a.flac").write_bytes(b"fLaC")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert str(model.transcribe(folder / "a.wav")) == str(model.transcribe(whole.astype(np.float32) / 32768))
    with pytest.raises(arcbeam.MissingDependencyError, match=r"a.flac: .*needs the package soundfile.*pip install"):
        model.transcribe(folder / "a.flac")


@pytest.mark.parametrize("batch_size", [2, 3, 7])
def test_batches_of_the_acoustic_model(folder, batch_size):
    """The encoder of the tests sees a frame at a time, so that padding changes nothing."""
    models.nemo_transducer(folder)
    model = arcbeam.from_onnx(folder, device="cpu")
    alone, together = model.encode(recordings()), model.encode(recordings(), batch_size=batch_size)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert model.encode([]) == [] and model.transcribe([]) == []


def test_features_of_ones_own(folder):
    models.ctc_model(folder / "model.onnx", 13, bins=64)
    models.vocabulary(folder / "vocab.txt", [*PIECES, "<blk>"])
    with pytest.raises(arcbeam.UnsupportedError, match=r"onnx-asr has no features of 64 values .* give preprocessor="):
        arcbeam.from_onnx(folder)
    calls = []

    def features(samples, lengths):
        calls.append((samples.shape, lengths.tolist()))
        frames = lengths // 160
        return np.random.default_rng(0).normal(size=(len(samples), 64, frames.max())).astype(np.float32), frames

    model = arcbeam.from_onnx(folder, preprocessor=features, device="cpu")
    words = str(model.transcribe(recordings()[0]))
    assert len(words) > 5 and calls == [((1, 16000), [16000])]
    (folder / "features.py").write_text(
        "import numpy as np\n\n\ndef log_mel(samples, lengths):\n    frames = lengths // 160\n"
        "    values = np.random.default_rng(0).normal(size=(len(samples), 64, frames.max()))\n"
        "    return values.astype(np.float32), frames\n"
    )
    named = arcbeam.from_onnx(folder, preprocessor=f"{folder / 'features.py'}:log_mel", device="cpu")
    assert str(named.transcribe(recordings()[0])) == words
    for wrong, why in (
        ("nemo64", "expected features of onnx-asr, gigaam_v2, .*nemo80, or FILE.py:FUNCTION, got 'nemo64'"),
        (f"{folder / 'features.py'}:mel", r"expected a function of .* \(log_mel\), got 'mel'"),
        ("features.txt:mel", "expected FILE.py:FUNCTION, got 'features.txt:mel'"),
    ):
        with pytest.raises(ValueError, match=f"preprocessor: {why}"):
            arcbeam.from_onnx(folder, preprocessor=wrong)
    with pytest.raises(FileNotFoundError, match=r"none\.py"):
        arcbeam.from_onnx(folder, preprocessor="none.py:mel")
    other = arcbeam.from_onnx(folder, preprocessor="nemo80", device="cpu")
    with pytest.raises(ValueError, match=r"preprocessor: expected features of 64 values, .* got 80"):
        other.encode(recordings()[0])


def test_features_by_name_are_those_of_the_type(folder):
    models.ctc_model(folder / "model.onnx", 13)
    models.vocabulary(folder / "vocab.txt", [*PIECES, "<blk>"])
    plain, named = (arcbeam.from_onnx(folder, preprocessor=one, device="cpu") for one in (None, "nemo80"))
    assert plain.encode(recordings()[0]).tobytes() == named.encode(recordings()[0]).tobytes()


@pytest.mark.filterwarnings("ignore:.*words are cut into the longest pieces:UserWarning")
def test_the_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("kaldifst", reason="kaldifst is missing")
    soundfile = pytest.importorskip("soundfile", reason="soundfile is missing")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path))
    arpa(tmp_path / "3gram.arpa")
    for name, make in (("ctc-0.6b", models.nemo_ctc), ("tdt-0.6b-v3", models.nemo_transducer)):
        folder = tmp_path / f"parakeet-{name}-onnx"
        folder.mkdir()
        make(folder, PIECES) if make is models.nemo_ctc else make(folder, durations=5)
    (folder / "encoder-model.onnx").rename(folder / "encoder-model.int8.onnx")
    (tmp_path / "data" / "demo").mkdir(parents=True)
    for name, samples in zip(("goforward", "numbers"), recordings()[2:0:-1], strict=True):
        soundfile.write(f"data/demo/{name}.flac", samples, 16000)
    ctc, transducer, parts = examples("guide/from-onnx.md")
    exec(compile(ctc, "from-onnx.md", "exec"), names := {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4 and {*" ".join(printed[::2]).split()} <= {"abc", "d", "hj", "dk"}
    exec(compile(transducer, "from-onnx.md", "exec"), names)
    assert names["hypothesis"].words and str(names["hypothesis"]) in capsys.readouterr().out
    whole = str(names["hypothesis"])
    exec(compile(parts, "from-onnx.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 and printed[0] == whole
