"""Models of NeMo and icefall: archives that these tests write, state dicts, and what is not supported."""

import pickle
import warnings

import numpy as np
import pytest

from arcbeam import FormatError, MissingDependencyError, TransducerDecoder
from tests.transducer.archives import icefall_names, nemo_file, nemo_names, torch_file
from tests.transducer.networks import random_arrays, random_frames

FRAMES = [random_frames(i, 40) for i in range(3)]
CONFIG = """
preprocessor: {window_stride: 0.01}
encoder: {subsampling_factor: 8}
decoder:
  _target_: nemo.collections.asr.modules.RNNTDecoder
  normalization_mode: null
  prednet: {pred_hidden: 11, pred_rnn_layers: 2}
joint:
  _target_: nemo.collections.asr.modules.RNNTJoint
  jointnet: {joint_hidden: 15, activation: relu, dropout: 0.2}
  vocabulary: [▁a, b, c, d, e, ▁f, g, h, i, j, k, l]
decoding: {strategy: greedy_batch, greedy: {max_symbols: 3}}
"""
TDT_CONFIG = CONFIG + "model_defaults: {tdt_durations: [0, 1, 2]}\n"


def arrays_of(kind):
    shape = {"rnnt": {"layers": 2}, "tdt": {"layers": 1, "durations": 3}}[kind]
    return random_arrays(6, blank=12, blank_bias=2.0, **shape)


def stateless():
    """Weights of a stateless network under icefall's names."""
    arrays = random_arrays(6, layers=0, context=2, groups=3, blank_bias=2.0)
    del arrays["convolution_bias"]
    return icefall_names(arrays)


def decoded(decoder):
    found = decoder.decode(FRAMES)
    assert sum(len(h.tokens) for h in found) > 5
    return [(h.tokens.tobytes(), h.frames.tobytes(), h.log_probs.tobytes()) for h in found]


def from_arrays(kind, **options):
    durations = [0, 1, 2] if kind == "tdt" else None
    options = {"max_symbols": 3, "durations": durations, "activation": "relu", **options}
    return TransducerDecoder.from_arrays(arrays_of(kind), 12, **options)


@pytest.mark.parametrize("compression", ["", "gz"])
@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_nemo_archives(tmp_path, kind, compression):
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    # A hybrid model has more than the transducer.
    weights = nemo_names(arrays_of(kind)) | {"encoder.pre_encode.out.weight": np.ones((3, 3), np.float32)}
    path = nemo_file(tmp_path / "m.nemo", TDT_CONFIG if kind == "tdt" else CONFIG, weights, compression)
    decoder = TransducerDecoder.from_nemo(path)
    assert decoded(decoder) == decoded(from_arrays(kind))
    assert decoder.options.frame_shift == pytest.approx(0.08)
    assert decoder.options.max_symbols == 3
    assert decoder.decode(FRAMES)[0].text.replace(" ", "").isalpha()
    other = TransducerDecoder.from_nemo(str(path), max_symbols=1, tokenizer=lambda ids: "x", activation="tanh")
    assert decoded(other) == decoded(from_arrays(kind, max_symbols=1, activation="tanh"))
    assert other.decode(FRAMES)[0].text == "x"
    with pytest.warns(UserWarning, match=r"tokenizer: 12 of 12 pieces differ from those of .*m.nemo, such as token 0"):
        TransducerDecoder.from_nemo(path, tokenizer=decoder.pieces[1:] + decoder.pieces[:1])
    with warnings.catch_warnings(action="error"):
        TransducerDecoder.from_nemo(path, tokenizer=decoder.pieces)


@pytest.mark.parametrize("output", ["joint.joint_net.1", "joint.joint_net.2"])
def test_nemo_state_dicts(output):
    weights = nemo_names(arrays_of("rnnt"), output)
    assert decoded(TransducerDecoder.from_nemo(weights, max_symbols=3)) == decoded(from_arrays("rnnt"))
    halves = {name: value.astype(np.float16) for name, value in weights.items()}
    assert len(TransducerDecoder.from_nemo(halves).decode(FRAMES)) == 3
    weights = nemo_names(arrays_of("tdt"), output)
    tdt = TransducerDecoder.from_nemo(weights, durations=[0, 1, 2], max_symbols=3)
    assert decoded(tdt) == decoded(from_arrays("tdt"))
    with pytest.raises(ValueError, match=r"state dict: 16 outputs for 13 tokens, as in a TDT; .* give durations="):
        TransducerDecoder.from_nemo(weights)


def test_nemo_without_a_row_for_the_blank():
    arrays = arrays_of("rnnt")
    arrays["embedding"][12] = 0
    weights = nemo_names(arrays)
    weights["decoder.prediction.embed.weight"] = arrays["embedding"][:12]
    expected = TransducerDecoder.from_arrays(arrays, 12, activation="relu")
    assert decoded(TransducerDecoder.from_nemo(weights)) == decoded(expected)


def test_nemo_stateless_networks():
    """Tables of their own for each place, the last token's first, side by side in the output."""
    arrays = random_arrays(6, layers=0, units=11, blank=12)
    arrays["embedding"][0, :, :8] = arrays["embedding"][1, :, 8:] = 0
    weights = nemo_names(arrays)
    weights["decoder.prediction.embeds.0.weight"] = arrays["embedding"][1, :, :8]
    weights["decoder.prediction.embeds.1.weight"] = arrays["embedding"][0, :, 8:]
    expected = TransducerDecoder.from_arrays(arrays, 12, activation="relu")
    assert decoded(TransducerDecoder.from_nemo(weights)) == decoded(expected)


UNSUPPORTED = {
    "projection": ({"decoder.prediction.dec_rnn.lstm.weight_hr_l0": np.ones((3, 4), np.float32)}, "weight_hr_l0"),
    "adapter": (
        {"joint.adapter_layer.a.module.0.weight": np.ones(3, np.float32)},
        "joint.adapter_layer.a.module.0.weight",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_layers_of_nemo_that_are_not_supported(case):
    more, message = UNSUPPORTED[case]
    with pytest.raises(FormatError, match=f"unsupported layer .*{message}"):
        TransducerDecoder.from_nemo(nemo_names(arrays_of("rnnt")) | more)


CONFIGS = {
    "decoder": (
        ("modules.RNNTDecoder", "modules.Transformer"),
        r"unsupported decoder Transformer, expected RNNTDecoder",
    ),
    "joint": (("RNNTJoint", "HATJoint"), r"unsupported joint HATJoint, expected RNNTJoint or SampledRNNTJoint"),
    "norm": (
        ("normalization_mode: null", "normalization_mode: layer"),
        r"unsupported decoder.normalization_mode layer",
    ),
    "yaml": (("preprocessor: {", "preprocessor: {{"), r"m.nemo: model_config.yaml: "),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configurations_of_nemo_that_are_not_supported(tmp_path, case):
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    change, message = CONFIGS[case]
    path = nemo_file(tmp_path / "m.nemo", CONFIG.replace(*change), nemo_names(arrays_of("rnnt")))
    with pytest.raises(FormatError, match=message):
        TransducerDecoder.from_nemo(path)


@pytest.mark.parametrize(
    "greedy, limit",
    [
        ("max_symbols_per_step: 2", 2),
        ("max_symbols: null, max_symbols_per_step: 2", 2),
        ("max_symbols: 3, max_symbols_per_step: 2", 3),
        ("preserve_alignments: false", 10),
        ("max_symbols: null", None),
        ("max_symbols: 0, max_symbols_per_step: null", None),
    ],
)
def test_how_nemo_limits_the_tokens_of_a_frame(tmp_path, greedy, limit):
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    config = CONFIG.replace("max_symbols: 3", greedy)
    path = nemo_file(tmp_path / "m.nemo", config, nemo_names(arrays_of("rnnt")))
    assert TransducerDecoder.from_nemo(path, max_symbols=4).options.max_symbols == 4
    if limit is None:
        with pytest.raises(ValueError, match=r"m.nemo: unsupported decoding.greedy: .* give max_symbols="):
            TransducerDecoder.from_nemo(path)
    else:
        assert TransducerDecoder.from_nemo(path).options.max_symbols == limit


@pytest.mark.parametrize("durations", [None, [0, 1, 2]])
@pytest.mark.parametrize("place", ["decoding", "model_defaults", "loss.multiblank_rnnt_kwargs"])
def test_multi_blank_models_of_nemo_are_no_tdts(tmp_path, place, durations):
    yaml = pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    config = yaml.safe_load(CONFIG)
    part = config
    for key in place.split("."):
        part = part.setdefault(key, {})
    part["big_blank_durations"] = [2, 4, 8]
    path = nemo_file(tmp_path / "m.nemo", yaml.safe_dump(config), nemo_names(arrays_of("tdt")))
    message = rf"m.nemo: unsupported multi-blank transducer: {place}.big_blank_durations is \[2, 4, 8\]"
    with pytest.raises(FormatError, match=message):
        TransducerDecoder.from_nemo(path, durations=durations)
    plain = nemo_file(tmp_path / "m.nemo", yaml.safe_dump(config), nemo_names(arrays_of("rnnt")))
    assert decoded(TransducerDecoder.from_nemo(plain)) == decoded(from_arrays("rnnt"))


def test_archives_that_are_none(tmp_path):
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    weights = nemo_names(arrays_of("rnnt"))
    path = tmp_path / "m.nemo"
    with pytest.raises(FileNotFoundError):
        TransducerDecoder.from_nemo(path)
    path.write_bytes(b"not a tar file" * 100)
    with pytest.raises(FormatError, match=r"m.nemo: expected a .nemo archive, which is a tar file, got ") as caught:
        TransducerDecoder.from_nemo(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(FormatError, match=r"m.nemo: expected model_config.yaml in the archive, got none"):
        TransducerDecoder.from_nemo(nemo_file(path, None, weights))
    with pytest.raises(FormatError, match=r"m.nemo: expected model_weights.ckpt in the archive, got none"):
        TransducerDecoder.from_nemo(nemo_file(path, CONFIG, None))
    with pytest.raises(FormatError, match=r"model_weights.ckpt: expected a file of torch.save"):
        TransducerDecoder.from_nemo(nemo_file(path, CONFIG, b"\x80\x02"))
    with pytest.raises(FormatError, match=r"m.nemo: expected a state dict, got list"):
        TransducerDecoder.from_nemo(nemo_file(path, CONFIG, [1, 2]))
    with pytest.raises(TypeError, match=r"expected the path of a .nemo archive, a model .* or a state dict, got int"):
        TransducerDecoder.from_nemo(3)
    for missing in ("joint.pred.bias", "decoder.prediction.embed.weight", "joint.joint_net.2.weight"):
        fewer = {name: value for name, value in weights.items() if name != missing}
        with pytest.raises(FormatError, match=f"state dict: expected {missing}, got none"):
            TransducerDecoder.from_nemo(fewer)
    with pytest.raises(FormatError, match=r"expected decoder.prediction.dec_rnn.lstm.weight_hh_l0, .*, got none"):
        TransducerDecoder.from_nemo({name: value for name, value in weights.items() if "dec_rnn" not in name})
    with pytest.raises(FormatError, match=r"state dict: expected joint.joint_net.N.weight, .*, got none"):
        TransducerDecoder.from_nemo({name: value for name, value in weights.items() if "joint_net" not in name})


SHAPES = {
    "decoder.prediction.dec_rnn.lstm.weight_ih_l1": (lambda w: w[:, 1:], r"expected shape \[44, 11\], got \[44, 10\]"),
    "decoder.prediction.dec_rnn.lstm.bias_hh_l0": (lambda w: w[1:], r"expected shape \[44\], got \[43\]"),
    "decoder.prediction.embed.weight": (lambda w: w[0], r"expected \[outputs, inputs\].* got shape \[9\]"),
    "joint.enc.bias": (lambda w: w[1:], r"expected shape \[15\], got \[14\]"),
    "joint.pred.weight": (lambda w: w[:, 1:], r"expected shape \[15, 11\], got \[15, 10\]"),
    "joint.joint_net.2.weight": (lambda w: w[:, 1:], r"expected shape \[13, 15\], got \[13, 14\]"),
}


@pytest.mark.parametrize("key", SHAPES)
def test_wrong_shapes_are_said_of_the_keys_of_nemo(key):
    spoil, message = SHAPES[key]
    weights = nemo_names(arrays_of("rnnt"))
    weights[key] = spoil(weights[key])
    with pytest.raises(ValueError, match=rf"^state dict: {key}: {message}"):
        TransducerDecoder.from_nemo(weights)


def test_tables_of_nemo_of_several_vocabularies():
    arrays = random_arrays(6, layers=0, units=11, blank=12)
    weights = nemo_names(arrays)
    weights["decoder.prediction.embeds.0.weight"] = arrays["embedding"][1, :, :8]
    weights["decoder.prediction.embeds.1.weight"] = arrays["embedding"][0, 1:, 8:]
    with pytest.raises(ValueError, match=r"^state dict: decoder.prediction.embeds.1.weight: expected shape \[13, 3\]"):
        TransducerDecoder.from_nemo(weights)


@pytest.mark.parametrize(
    "key, spoil",
    [
        ("decoder.conv.weight", lambda w: w[:, :8]),
        ("decoder.embedding.weight", lambda w: w[0]),
        ("joiner.decoder_proj.weight", lambda w: w[:, 1:]),
        ("joiner.encoder_proj.bias", lambda w: w[1:]),
        ("joiner.output_linear.weight", lambda w: w[1:]),
    ],
)
def test_wrong_shapes_are_said_of_the_keys_of_icefall(key, spoil):
    arrays = random_arrays(6, layers=0, context=2, groups=3)
    del arrays["convolution_bias"]
    weights = icefall_names(arrays)
    weights[key] = spoil(weights[key])
    if key == "joiner.output_linear.weight":
        weights["joiner.output_linear.bias"] = weights["joiner.output_linear.bias"][1:]
    with pytest.raises(ValueError, match=rf"^state dict: {key}: expected .*got "):
        TransducerDecoder.from_icefall(weights)


def test_decoders_of_files_are_pickled_without_them(tmp_path):
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    path = nemo_file(tmp_path / "m.nemo", TDT_CONFIG, nemo_names(arrays_of("tdt")))
    checkpoint = tmp_path / "m.pt"
    checkpoint.write_bytes(torch_file({"model": stateless()}))
    for file, make in ((path, TransducerDecoder.from_nemo), (checkpoint, TransducerDecoder.from_icefall)):
        decoder = make(file, device="cpu", threads=1)
        wanted, data = decoded(decoder), pickle.dumps(decoder)
        file.unlink()
        again = pickle.loads(data)
        assert decoded(again) == wanted
        assert (again.options, again.has_text) == (decoder.options, decoder.has_text)


def test_an_archive_without_pyyaml(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(MissingDependencyError, match="pip install pyyaml"):
        TransducerDecoder.from_nemo(nemo_file(tmp_path / "m.nemo", CONFIG, nemo_names(arrays_of("rnnt"))))


@pytest.mark.parametrize("context", [0, 2, 3])
def test_icefall(tmp_path, context):
    arrays = random_arrays(6, layers=0, context=context, groups=3, blank_bias=2.0)
    arrays.pop("convolution_bias", None)
    if not context:
        arrays["embedding"] = arrays["embedding"][0]
    expected = decoded(TransducerDecoder.from_arrays(arrays, 0, relu=context > 0, max_symbols=1))
    weights = icefall_names(arrays) | {"encoder.x": np.ones(2, np.float32), "decoder.balancer.count": np.ones(1)}
    assert decoded(TransducerDecoder.from_icefall(weights)) == expected
    path = tmp_path / "pretrained.pt"
    path.write_bytes(torch_file({"model": weights, "epoch": 30, "sampler": None}))
    assert decoded(TransducerDecoder.from_icefall(path)) == expected


def test_icefall_weights_with_scales():
    weights = stateless()
    scales = {
        "decoder.embedding.weight": "decoder.embedding.scale",
        "decoder.conv.weight": "decoder.conv.weight_scale",
        "joiner.output_linear.bias": "joiner.output_linear.bias_scale",
    }
    unscaled = weights | {name: weights[name] * np.float32(0.25) for name in scales}
    log_4 = np.log(np.float32(4))
    found = TransducerDecoder.from_icefall(unscaled | dict.fromkeys(scales.values(), log_4)).decode(FRAMES)
    expected = TransducerDecoder.from_icefall(weights).decode(FRAMES)
    assert [h.tokens.tolist() for h in found] == [h.tokens.tolist() for h in expected]


def test_layers_of_icefall_that_are_not_supported(tmp_path):
    arrays = random_arrays(6, layers=0, context=2)
    del arrays["convolution_bias"]
    weights = icefall_names(arrays)
    with pytest.raises(FormatError, match=r"state dict: unsupported layer decoder.rnn.weight_hh_l0"):
        TransducerDecoder.from_icefall(weights | {"decoder.rnn.weight_hh_l0": np.ones((4, 1), np.float32)})
    with pytest.raises(FormatError, match=r"state dict: expected joiner.decoder_proj.weight, got none"):
        TransducerDecoder.from_icefall({k: v for k, v in weights.items() if k != "joiner.decoder_proj.weight"})
    with pytest.raises(TypeError, match=r"expected the path of a checkpoint or a state dict, got int"):
        TransducerDecoder.from_icefall(3)
    path = tmp_path / "list.pt"
    path.write_bytes(torch_file([1]))
    with pytest.raises(FormatError, match=r"list.pt: expected a state dict, got list"):
        TransducerDecoder.from_icefall(path)
