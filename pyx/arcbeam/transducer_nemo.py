"""Reads RNN-T and TDT models of NeMo: archives and state dicts, by the names of their parameters."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arcbeam.errors import FormatError, MissingDependencyError
from arcbeam.transducer_network import (
    Joint,
    LstmLayer,
    LstmPrediction,
    StatelessPrediction,
    as_weights,
    check_shape,
    named_as,
)
from arcbeam.transducer_torch_file import read_torch_file

CONFIG, WEIGHTS = "model_config.yaml", "model_weights.ckpt"
DECODERS = ("RNNTDecoder", "StatelessTransducerDecoder")
JOINTS = ("RNNTJoint", "SampledRNNTJoint")
MAX_SYMBOLS = ("max_symbols", "max_symbols_per_step")
MULTI_BLANK = (  # blanks of several frames: as many more outputs as a TDT has durations, and another search
    "decoding.big_blank_durations",
    "model_defaults.big_blank_durations",
    "loss.multiblank_rnnt_kwargs.big_blank_durations",
)
PREDICTION, LSTM = "decoder.prediction.", "decoder.prediction.dec_rnn.lstm."


@dataclass
class NemoModel:
    """A transducer of NeMo, and the options that its configuration sets."""

    name: str
    keys: dict[str, str]
    prediction: LstmPrediction | StatelessPrediction
    joint: Joint
    blank_id: int
    options: dict[str, Any] = field(default_factory=dict)

    def options_with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options; those given override the configuration."""
        options = {"blank_id": self.blank_id, **self.options, **given}
        if "max_symbols" not in given and options.get("max_symbols", 1) is None:
            raise ValueError(
                f"{self.name}: unsupported decoding.greedy: neither max_symbols nor max_symbols_per_step limits the "
                f"tokens of a frame; give max_symbols="
            )
        return options


def read_nemo(
    source: str | os.PathLike[str] | Mapping[str, Any], activation: str | None, durations: Sequence[int] | None
) -> NemoModel:
    """The model of a ``.nemo`` archive or a state dict; see :meth:`arcbeam.TransducerDecoder.from_nemo`."""
    if isinstance(source, Mapping):
        return _from_state_dict(source, "state dict", {}, activation, durations)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"expected the path of a .nemo archive or a state dict, got {type(source).__name__}")
    name = os.fspath(source)
    config, weights = _read_archive(name)
    return _from_state_dict(weights, name, config, activation, durations)


def _read_archive(name: str) -> tuple[Any, Any]:
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(name, "r:*") as archive:
            for member in archive:
                base = os.path.basename(member.name)
                if member.isfile() and base in (CONFIG, WEIGHTS):
                    content = archive.extractfile(member)
                    assert content is not None
                    found[base] = content.read()
    except (tarfile.TarError, EOFError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # each kind of compression has a line after that
        raise FormatError(f"{name}: expected a .nemo archive, which is a tar file, got another ({reason})") from None
    for needed in (CONFIG, WEIGHTS):
        if needed not in found:
            raise FormatError(f"{name}: expected {needed} in the archive, got none")
    try:
        import yaml
    except ImportError:
        raise MissingDependencyError("a .nemo archive needs the package pyyaml: pip install pyyaml") from None
    try:
        config = yaml.safe_load(found[CONFIG])
    except yaml.YAMLError as error:
        raise FormatError(f"{name}: {CONFIG}: {error}") from None
    weights = read_torch_file(io.BytesIO(found[WEIGHTS]), f"{name}: {WEIGHTS}")
    return config, weights


def _get(config: Any, path: str, default: Any = None) -> Any:
    for key in path.split("."):
        config = config.get(key) if isinstance(config, Mapping) else None
    return default if config is None else config


def _from_state_dict(
    weights: Any, name: str, config: Any, activation: str | None, durations: Sequence[int] | None
) -> NemoModel:
    _refuse_other_modules(name, config)
    if not isinstance(weights, Mapping):
        raise FormatError(f"{name}: expected a state dict, got {type(weights).__name__}")
    ours = {key: value for key, value in weights.items() if str(key).startswith(("decoder.", "joint."))}
    output = _last_linear(name, ours)
    keys = {
        "encoder_weight": "joint.enc.weight",
        "encoder_bias": "joint.enc.bias",
        "prediction_weight": "joint.pred.weight",
        "prediction_bias": "joint.pred.bias",
        "output_weight": f"{output}.weight",
        "output_bias": f"{output}.bias",
    }
    joint_weights = {part: _take(name, ours, key) for part, key in keys.items()}
    keys |= {"embedding": f"{PREDICTION}embed.weight"}
    keys |= {our_key: f"{LSTM}{our_key}" for our_key in (key.removeprefix(LSTM) for key in ours if LSTM in key)}
    options = _options(config)
    # A TDT's configuration may list blanks for losses that it was not trained with.
    blanks = MULTI_BLANK[:1] if "durations" in options else MULTI_BLANK
    if durations is not None:
        options["durations"] = list(durations)
    outputs = len(joint_weights["output_weight"])
    with named_as(name, keys):
        prediction = _prediction(name, ours, {outputs, outputs - len(options.get("durations", ()))})
    if ours:
        raise FormatError(f"{name}: unsupported layer {sorted(ours)[0]}")
    wide = next((path for path in blanks if _get(config, path)), None)
    if wide is not None and outputs != prediction.tokens:
        raise FormatError(f"{name}: unsupported multi-blank transducer: {wide} is {_get(config, wide)}")
    if outputs == prediction.tokens and durations is None:
        options.pop("durations", None)  # the configuration of an RNN-T may list some
    elif "durations" not in options:
        raise ValueError(
            f"{name}: {outputs} outputs for {prediction.tokens} tokens, as a TDT has; its durations are not in the "
            f"configuration, give durations="
        )
    activation = activation or _get(config, "joint.jointnet.activation", "relu")
    with named_as(name, keys):
        joint = Joint(**joint_weights, activation=activation)
    return NemoModel(name, keys, prediction, joint, prediction.tokens - 1, options)


def _refuse_other_modules(name: str, config: Any) -> None:
    for part, known in (("decoder", DECODERS), ("joint", JOINTS)):
        target = str(_get(config, f"{part}._target_", known[0])).rpartition(".")[2]
        if target not in known:
            raise FormatError(f"{name}: unsupported {part} {target}, expected {' or '.join(known)}")
    normalization = _get(config, "decoder.normalization_mode")
    if normalization is not None:
        raise FormatError(f"{name}: unsupported decoder.normalization_mode {normalization}, expected none")


def _take(name: str, weights: dict[str, Any], key: str) -> np.ndarray:
    if key not in weights:
        raise FormatError(f"{name}: expected {key}, got none")
    value = weights.pop(key)
    axes = ("outputs",) if "bias" in key.rpartition(".")[2] else ("outputs", "inputs")
    with named_as(name, {key: key}):
        return as_weights(key, value, axes)


def _last_linear(name: str, weights: dict[str, Any]) -> str:
    """The output layer follows the activation, and a dropout if the model was trained with one."""
    found = sorted({key.rpartition(".")[0] for key in weights if key.startswith("joint.joint_net.")})
    if not found:
        raise FormatError(f"{name}: expected joint.joint_net.N.weight, the joint network's output, got none")
    return found[-1]


def _prediction(name: str, weights: dict[str, Any], tokens: set[int]) -> LstmPrediction | StatelessPrediction:
    """The prediction network; `tokens`: how many there may be, the blank included."""
    places = [key for key in weights if re.fullmatch(r"decoder\.prediction\.embeds\.\d+\.weight", key)]
    if places:
        # The first table is that of the last token, and the tables' outputs lie side by side.
        tables = [_take(name, weights, f"{PREDICTION}embeds.{i}.weight") for i in range(len(places))]
        for i, table in enumerate(tables):
            with named_as(name, {"table": f"{PREDICTION}embeds.{i}.weight"}):
                check_shape("table", table, (len(tables[0]), table.shape[1]))
        begins = np.cumsum([0, *(table.shape[1] for table in tables)])
        stacked = np.zeros((len(tables), len(tables[0]), int(begins[-1])), np.float32)
        for i, table in enumerate(tables):
            stacked[len(tables) - 1 - i, :, begins[i] : begins[i + 1]] = table
        return StatelessPrediction(stacked)
    embedding = _take(name, weights, f"{PREDICTION}embed.weight")
    if f"{LSTM}weight_hh_l0" not in weights:
        raise FormatError(f"{name}: expected {LSTM}weight_hh_l0, the only recurrent network supported, got none")
    layers: list[LstmLayer] = []
    while f"{LSTM}weight_hh_l{len(layers)}" in weights:
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        layers.append(LstmLayer(*(_take(name, weights, f"{LSTM}{kind}_l{len(layers)}") for kind in kinds)))
    if len(embedding) not in tokens and len(embedding) + 1 in tokens:  # the blank's is zero and was left out
        embedding = np.concatenate([embedding, np.zeros((1, embedding.shape[1]), np.float32)])
    return LstmPrediction(embedding, layers)


def _options(config: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for path in ("decoding.durations", "model_defaults.tdt_durations", "loss.tdt_kwargs.durations"):
        durations = _get(config, path)
        if isinstance(durations, list) and durations:
            options["durations"] = list(durations)
            break
    greedy = _get(config, "decoding.greedy")
    limits = [greedy[key] for key in MAX_SYMBOLS if key in greedy] if isinstance(greedy, Mapping) else []
    if limits:
        options["max_symbols"] = next((limit for limit in limits if limit), None)  # as there, 0 is none either
    stride, factor = _get(config, "preprocessor.window_stride"), _get(config, "encoder.subsampling_factor")
    if isinstance(stride, (int, float)) and isinstance(factor, int):
        options["frame_shift"] = stride * factor
    pieces = _get(config, "joint.vocabulary")
    if isinstance(pieces, list) and _get(config, "tokenizer.type") != "wpe":  # those mark the middle of words instead
        options["tokenizer"] = [str(piece) for piece in pieces]
    return options
