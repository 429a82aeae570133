"""What is no model, or does not fit: the error says what was expected, and what was got."""

import json
import sys
import warnings

import numpy as np
import pytest

import arcbeam

for needed in ("onnx", "onnxruntime", "onnx_asr"):
    pytest.importorskip(needed, reason=f"{needed} is missing")

from onnx import helper  # noqa: E402

from tests.adapters import onnx_models as models  # noqa: E402
from tests.adapters.onnx_models import PIECES, broken, recordings  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:log_probs. expected the blank:UserWarning")


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def test_networks_of_another_kind(folder):
    arrays = models.nemo_transducer(folder)

    def doubled(graph):  # what is read leaves the doubling out
        node = next(node for node in graph.node if node.op_type == "Relu")
        graph.node.insert(list(graph.node).index(node), helper.make_node("Add", [node.input[0]] * 2, ["twice"]))
        node.input[0] = "twice"

    broken(folder, "decoder_joint-model.onnx", doubled)
    with pytest.raises(arcbeam.UnsupportedError, match=r"compute more than the layers .* a logit differs by"):
        arcbeam.from_onnx(folder)

    def gates(graph):  # the last gates changed places: another model, which is read as well
        stored = next(one for one in graph.initializer if one.name == "onnx::LSTM_0_ih")
        changed = models.reordered(arrays["weight_ih_l0"])[::-1].copy()
        stored.raw_data = changed.tobytes()

    models.decoder_joint(folder / "decoder_joint-model.onnx", arrays)
    before = arcbeam.from_onnx(folder, device="cpu").transcribe(recordings())
    broken(folder, "decoder_joint-model.onnx", gates)
    after = arcbeam.from_onnx(folder, device="cpu").transcribe(recordings())
    assert [one.score for one in before] != [one.score for one in after]

    def two_layers(graph):
        node = next(node for node in graph.node if node.op_type == "LSTM")
        graph.initializer.append(models.numpy_helper.from_array(np.eye(16, dtype=np.float32), "eye"))
        graph.node.insert(list(graph.node).index(node), helper.make_node("MatMul", [node.input[0], "eye"], ["same"]))
        node.input[0] = "same"

    models.decoder_joint(folder / "decoder_joint-model.onnx", arrays)
    broken(folder, "decoder_joint-model.onnx", two_layers)
    with pytest.raises(arcbeam.UnsupportedError, match="expected one prediction_weight, got two"):
        arcbeam.from_onnx(folder)

    def peepholes(graph):
        node = next(node for node in graph.node if node.op_type == "LSTM")
        graph.initializer.append(models.numpy_helper.from_array(np.zeros((1, 48), np.float32), "peep"))
        node.input.append("peep")

    models.decoder_joint(folder / "decoder_joint-model.onnx", arrays)
    broken(folder, "decoder_joint-model.onnx", peepholes)
    with pytest.raises(arcbeam.UnsupportedError, match="expected an LSTM as torch has it, got one with peepholes"):
        arcbeam.from_onnx(folder)
    models.decoder_joint(folder / "decoder_joint-model.onnx", arrays, activation="Softplus")
    with pytest.raises(arcbeam.UnsupportedError, match="found no activation of the joint network among the nodes Add"):
        arcbeam.from_onnx(folder)
    more = {"embedding": np.zeros((15, 16), np.float32)}
    models.decoder_joint(folder / "decoder_joint-model.onnx", arrays | more)
    with pytest.raises(arcbeam.UnsupportedError, match="expected an output for each of 15 tokens, got 13"):
        arcbeam.from_onnx(folder)

    def two_activations(graph):
        node = next(node for node in graph.node if node.op_type == "Relu")
        graph.node.insert(list(graph.node).index(node), helper.make_node("Tanh", [node.input[0]], ["twice"]))
        node.input[0] = "twice"

    models.decoder_joint(folder / "decoder_joint-model.onnx", arrays)
    broken(folder, "decoder_joint-model.onnx", two_activations)
    with pytest.raises(arcbeam.UnsupportedError, match="one activation in the joint network, got two: tanh and relu"):
        arcbeam.from_onnx(folder)

    def renamed(graph):
        next(value for value in graph.input if value.name == "targets").name = "labels"
        next(node for node in graph.node if node.op_type == "Gather").input[1] = "labels"

    models.decoder_joint(folder / "decoder_joint-model.onnx", arrays)
    broken(folder, "decoder_joint-model.onnx", renamed)
    with pytest.raises(arcbeam.UnsupportedError, match="it cannot be run as onnx-asr does"):
        arcbeam.from_onnx(folder)
    for activation in ("Tanh", "Sigmoid"):
        models.decoder_joint(folder / "decoder_joint-model.onnx", arrays, activation=activation)
        arcbeam.from_onnx(folder, device="cpu").transcribe(recordings())


def test_icefall_networks_of_another_kind(folder):
    models.kaldi_transducer(folder, ["<blk>", *PIECES], masked=False)
    with pytest.raises(arcbeam.UnsupportedError, match=r"decoder.onnx and .*joiner.onnx: .* compute more"):
        arcbeam.from_onnx(folder)
    models.kaldi_transducer(folder, ["<blk>", *PIECES])

    def padded(graph):
        node = next(node for node in graph.node if node.op_type == "Conv")
        node.attribute.append(helper.make_attribute("pads", [1, 0]))

    broken(folder, "decoder.onnx", padded)
    with pytest.raises(arcbeam.UnsupportedError, match="expected a 1-D convolution without padding, got another"):
        arcbeam.from_onnx(folder)
    models.kaldi_transducer(folder, ["<blk>", *PIECES], context=3)
    with pytest.raises(arcbeam.UnsupportedError, match=r"expected a prediction network of 2 tokens, .* got one of 3"):
        arcbeam.from_onnx(folder)


def test_a_streaming_export(folder):
    models.kaldi_transducer(folder, ["<blk>", *PIECES])
    cache = helper.make_tensor_value_info("cached_len", models.INT64, ["n"])
    broken(folder, "encoder.onnx", lambda graph: graph.input.append(cache))
    with pytest.raises(arcbeam.UnsupportedError, match="got the inputs x, x_lens, cached_len: a streaming export"):
        arcbeam.from_onnx(folder)
    (folder / "encoder.onnx").rename(folder / "model.onnx")
    for name in ("decoder", "joiner"):
        (folder / f"{name}.onnx").unlink()
    with pytest.raises(arcbeam.UnsupportedError, match=r"model.onnx: expected a CTC model with the inputs"):
        arcbeam.from_onnx(folder)


def test_folders_that_are_no_model(folder):
    with pytest.raises(FileNotFoundError, match=r"expected the folder of a model, with model.onnx"):
        arcbeam.from_onnx(folder / "none")
    with pytest.raises(FileNotFoundError, match=r"expected model.onnx .a CTC model., .* got none of these"):
        arcbeam.from_onnx(folder)
    models.nemo_ctc(folder, PIECES)
    with pytest.raises(NotADirectoryError, match=r"model.onnx: expected the folder of a model"):
        arcbeam.from_onnx(folder / "model.onnx")
    with pytest.raises(ValueError, match=r"model_type: expected one that onnx-asr knows, .* got 'conformer'"):
        arcbeam.from_onnx(folder, model_type="conformer")
    with pytest.raises(arcbeam.UnsupportedError, match=r"of NeMo, GigaAM or Kaldi, got the type 'nemo-conformer-aed'"):
        arcbeam.from_onnx(folder, model_type="nemo-conformer-aed")
    with pytest.raises(FileNotFoundError, match=r"expected a file model\.int8\.onnx .*got none"):
        arcbeam.from_onnx(folder, quantization="int8")
    with pytest.raises(FileNotFoundError, match=r"expected a file encoder-model\.onnx or encoder\.onnx"):
        arcbeam.from_onnx(folder, model_type="nemo-conformer-rnnt")
    models.kaldi_transducer(folder, ["<blk>", *PIECES], "-1")
    models.kaldi_transducer(folder, ["<blk>", *PIECES], "-2")
    with pytest.raises(ValueError, match=r"expected one file encoder-\*\.onnx, got encoder-1\.onnx, encoder-2\.onnx"):
        arcbeam.from_onnx(folder, model_type="kaldi-rnnt")


def test_files_that_are_damaged(folder):
    models.nemo_transducer(folder, external=True)
    (folder / "decoder_joint-model.onnx.data").unlink()
    with pytest.raises(arcbeam.FormatError, match=r"decoder_joint-model.onnx: expected an ONNX model, .*\.data"):
        arcbeam.from_onnx(folder)
    (folder / "decoder_joint-model.onnx").write_bytes(b"no model" * 9)
    with pytest.raises(arcbeam.FormatError, match=r"decoder_joint-model.onnx: expected an ONNX model"):
        arcbeam.from_onnx(folder)
    (folder / "decoder_joint-model.onnx").write_bytes(b"")
    with pytest.raises(arcbeam.FormatError, match="expected an ONNX model, got one without nodes"):
        arcbeam.from_onnx(folder)
    models.nemo_transducer(folder)
    (folder / "encoder-model.onnx").write_bytes(b"no model" * 9)
    with pytest.raises(arcbeam.FormatError, match=r"onnx-asr cannot load this model .InvalidProtobuf"):
        arcbeam.from_onnx(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(arcbeam.FormatError, match=r"config.json: expected a configuration of onnx-asr"):
        arcbeam.from_onnx(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": 3}))
    with pytest.raises(arcbeam.FormatError, match=r"config.json: model_type: expected text, got 3"):
        arcbeam.from_onnx(folder)


def test_tokens_that_do_not_fit(folder):
    models.nemo_ctc(folder, PIECES[:9], None)
    with pytest.raises(ValueError, match=r"expected a token that is the blank .*; give blank="):
        arcbeam.from_onnx(folder)
    models.nemo_ctc(folder, PIECES)
    models.vocabulary(folder / "vocab.txt", ["<blk>", *PIECES[:7]])
    with pytest.raises(ValueError, match=r"vocab.txt: expected 13 tokens, .* got 8: they are those of another model"):
        arcbeam.from_onnx(folder)
    models.vocabulary(folder / "vocab.txt", PIECES)
    with pytest.raises(ValueError, match=r"expected 13 tokens, .* got 12; if the blank is the column after the last"):
        arcbeam.from_onnx(folder, blank=3)
    model = arcbeam.from_onnx(folder, blank=12, device="cpu")
    assert str(model.transcribe(recordings()[0])) == model.onnx_asr.recognize(recordings()[0])
    models.nemo_transducer(folder)
    models.vocabulary(folder / "vocab.txt", [*PIECES, "m", "n", "<blk>"])
    with pytest.raises(ValueError, match=r"vocab.txt: expected 13 tokens, or one less without the blank, .* got 15"):
        arcbeam.from_onnx(folder)


def test_options_that_do_not_fit(folder):
    models.nemo_ctc(folder, PIECES)
    with pytest.raises(ValueError, match=r"transducer: expected None for a CTC model, got \{\}"):
        arcbeam.from_onnx(folder, transducer={})
    with pytest.raises(TypeError, match="unknown option beams: expected one of folder, lm, model_type"):
        arcbeam.from_onnx(folder, beams=3)
    models.nemo_transducer(folder)
    with pytest.raises(ValueError, match=r"beam, lm: for CTC models; options of transducers are transducer="):
        arcbeam.from_onnx(folder, "lm.arpa", beam=3.0)


AUDIO = {
    "short": (np.zeros(100, np.float32), {}, ValueError, r"audio: expected a recording of at least 0\.025 s, got 100"),
    "int16": (np.zeros(9999, np.int16), {}, TypeError, r"audio: expected the samples .* divide by 32768"),
    "text": ([7], {}, TypeError, r"audio\[0\]: expected the samples of a recording"),
    "cube": (np.zeros((2, 2, 2), np.float32), {}, ValueError, r"expected an array \[samples\] .* shape \[2, 2, 2\]"),
    "two channels": (np.zeros((9999, 2), np.float32), {}, ValueError, "expected one channel, got 2; give channel="),
    "third of two": (np.zeros((9999, 2), np.float32), {"channel": 2}, ValueError, "channel: expected 0 to 1 or 'mean'"),
    "rate": (np.zeros(9999, np.float32), {"sample_rate": 12345}, ValueError, "expected one of 8000, .* got 12345"),
    "nan": ([np.full(9999, np.nan, np.float32)], {}, ValueError, r"audio\[0\]: expected finite samples, got nan"),
    "no file": ("none.wav", {}, FileNotFoundError, "none.wav"),
    "batch": ([], {"batch_size": 0}, ValueError, "batch_size: expected a whole number of at least 1, got 0"),
    "option": ([], {"nbests": 3}, TypeError, "unknown option nbests"),
}  # fmt: skip


def test_samples_of_int16_without_a_division_are_warned_of(folder):
    models.nemo_ctc(folder, PIECES)
    model = arcbeam.from_onnx(folder)
    samples = np.random.default_rng(0).normal(size=8000).astype(np.float32)
    with pytest.warns(
        UserWarning, match=r"^audio: expected samples from -1 to 1, got one of size .*: are they of int16"
    ):
        model.transcribe(4000 * samples)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="audio")
        model.transcribe(samples)


def test_audio_that_is_none(folder):
    models.nemo_ctc(folder, PIECES)
    model = arcbeam.from_onnx(folder, device="cpu")
    for audio, options, error, message in AUDIO.values():
        with pytest.raises(error, match=message):
            model.transcribe(audio, **options)
    (folder / "a.wav").write_bytes(b"RIFF no audio")
    with pytest.raises(arcbeam.FormatError, match=r"a.wav: expected audio, got what cannot be read"):
        model.transcribe(folder / "a.wav")
    assert str(model.transcribe(recordings()[0])) == model.onnx_asr.recognize(recordings()[0])


def test_a_subsampling_that_is_wrong(folder):
    models.nemo_ctc(folder, PIECES, subsampling_factor=4)
    model = arcbeam.from_onnx(folder, device="cpu")
    with pytest.raises(arcbeam.FormatError, match=r"json: subsampling_factor: 4 gives 25 frames .* makes 13; is it 8"):
        model.transcribe(recordings()[0])
    models.ctc_model(folder / "model.onnx", len(PIECES) + 1, subsampling=2)
    model = arcbeam.from_onnx(folder, device="cpu")  # which would be cut off in the middle
    with pytest.raises(arcbeam.FormatError, match=r"subsampling_factor: 4 gives 25 frames .* makes 5[01]; is it 2\?"):
        model.transcribe(recordings()[0])
    with pytest.raises(arcbeam.FormatError, match=r"is it 2\?"):
        model.encode(recordings(), batch_size=2)


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
@pytest.mark.parametrize("config", [None, {}, {"features_size": 80}])
def test_a_subsampling_that_no_file_says(folder, factor, config):
    """onnx-asr would take 8, and the end of a recording would be cut off silently."""
    models.nemo_ctc(folder, PIECES, **config or {})
    models.ctc_model(folder / "model.onnx", len(PIECES) + 1, subsampling=factor)
    if config is None:
        (folder / "config.json").unlink()
    model = arcbeam.from_onnx(folder, device="cpu")
    assert model.decoder.options.frame_shift == pytest.approx(0.01 * factor)
    encoded = model.encode(recordings())
    models.nemo_ctc(folder, PIECES, subsampling_factor=factor)
    models.ctc_model(folder / "model.onnx", len(PIECES) + 1, subsampling=factor)
    expected = arcbeam.from_onnx(folder, device="cpu").encode(recordings())
    assert [one.tobytes() for one in encoded] == [one.tobytes() for one in expected]
    assert [len(one) for one in encoded] == [-(-len(r) // 160 // factor) for r in recordings()]


@pytest.mark.parametrize(("missing", "said"), [
    ("onnx", "reading the weights of a transducer from ONNX files needs the package onnx,"),
    ("onnxruntime", "an ONNX model needs the package onnxruntime,"),
    ("onnx_asr", r"an ONNX model needs the package onnx-asr,.*pip install 'onnx-asr>="),
])  # fmt: skip
def test_a_package_that_is_missing(folder, monkeypatch, missing, said):
    models.nemo_transducer(folder)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(arcbeam.MissingDependencyError, match=said):
        arcbeam.from_onnx(folder)
