"""The acoustic model of the larger speech sets, from audio to words: the words of the log-probs that are stored."""

import json

import numpy as np
import pytest

import arcbeam

for needed in ("onnx", "onnxruntime", "onnx_asr", "soundfile", "torch"):
    pytest.importorskip(needed, reason=f"{needed} is missing")

import onnx  # noqa: E402
import soundfile  # noqa: E402
import torch  # noqa: E402

from benchmarks.data.front_end import FrontEnd  # noqa: E402
from tests.adapters.onnx_models import vocabulary  # noqa: E402


def features(samples, lengths):
    """QuartzNet's: 64 mel bins and reflection at the ends, which onnx-asr does not have."""
    made, frames = FrontEnd()(torch.from_numpy(samples), lengths.tolist())
    return made.numpy(), np.array(frames, np.int64)


@pytest.fixture
def quartznet(arcbeam_data, tmp_path):
    """The model as onnx-asr has NeMo's CTC models: with the names of its inputs, tokens, and a configuration."""
    model = onnx.load(str(arcbeam_data / "model" / "quartznet15x5.onnx"))
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            if name == "logmel":
                node.input[i] = "audio_signal"
    model.graph.input[0].name = "audio_signal"
    model.graph.input.append(onnx.helper.make_tensor_value_info("length", onnx.TensorProto.INT64, ["batch"]))
    onnx.save(model, str(tmp_path / "model.onnx"))
    names = ["\u2581", *"abcdefghijklmnopqrstuvwxyz'", "<blk>"]
    vocabulary(tmp_path / "vocab.txt", names)
    config = {"model_type": "nemo-conformer-ctc", "features_size": 64, "subsampling_factor": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_the_words_of_the_demo(quartznet, arcbeam_data, demo_data):
    pytest.importorskip("kaldifst", reason="kaldifst is missing")
    with pytest.raises(arcbeam.UnsupportedError, match=r"no features of 64 values .* give preprocessor="):
        arcbeam.from_onnx(quartznet)
    arpa = demo_data / "novels.3gram.arpa.xz"
    model = arcbeam.from_onnx(quartznet, arpa, preprocessor=features, cache=False, device="cpu", acoustic_scale=1.5)
    assert model.decoder.options.frame_shift == pytest.approx(0.02)
    demo = arcbeam_data / "demo"
    with np.load(demo / "log_probs.npz") as stored:
        log_probs = np.split(stored["log_probs"], np.cumsum(stored["lengths"])[:-1])
        paths = [demo / f"{name}.flac" for name in stored["ids"]]
    encoded = model.encode(paths)
    assert [rows.shape for rows in encoded] == [rows.shape for rows in log_probs]
    greedy = arcbeam.from_onnx(quartznet, preprocessor=features, device="cpu")
    for one in (model, greedy):
        found = one.decoder.decode(encoded)
        assert [str(each) for each in found] == [str(each) for each in one.decoder.decode(log_probs)]
        assert sum(len(each.words) for each in found) > 90
    assert str(greedy.transcribe(paths[0])) == str(found[0])
    samples, _ = soundfile.read(paths[0], dtype="float32")
    assert str(found[0]) == greedy.onnx_asr.recognize(samples)
