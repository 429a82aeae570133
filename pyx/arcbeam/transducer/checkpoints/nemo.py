"""Reads RNN-T and TDT models of NeMo: archives, safetensors and state dicts, by the names of their parameters."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.files.nemo_archive import ARCHIVE, CONFIG, get, is_model, read_config
from arcbeam.files.tar_file import read_members
from arcbeam.files.torch_file import read_torch_file
from arcbeam.transducer.checkpoints.checkpoint import TABLES, Source, file_source, is_safetensors, read_checkpoint
from arcbeam.transducer.checkpoints.nemo_config import activation_of, check_pieces, options_of
from arcbeam.transducer.network import (
    Joint,
    LstmLayer,
    LstmPrediction,
    StatelessPrediction,
    as_weights,
    check_shape,
    named_as,
)
from arcbeam.transducer.text import warn_of_other_pieces

WEIGHTS = "model_weights.ckpt"
PARTS = ("decoder.", "joint.")
DECODERS = ("RNNTDecoder", "StatelessTransducerDecoder")
JOINTS = ("RNNTJoint", "SampledRNNTJoint")
MULTI_BLANK = (  # blanks of several frames: as many more outputs as a TDT has durations, and another search
    "decoding.big_blank_durations",
    "model_defaults.big_blank_durations",
    "loss.multiblank_rnnt_kwargs.big_blank_durations",
)
MOST_PLACES = 16  # of a stateless network's context
PREDICTION, LSTM = "decoder.prediction.", "decoder.prediction.dec_rnn.lstm."


@dataclass
class NemoModel:
    """A transducer of NeMo, and the options that its configuration sets."""

    source: Source
    keys: dict[str, str]
    prediction: LstmPrediction | StatelessPrediction
    joint: Joint
    blank_id: int
    options: dict[str, Any] = field(default_factory=dict)

    def options_with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options; those given override the configuration."""
        if "tokenizer" in self.options and "tokenizer" in given:
            warn_of_other_pieces(self.source.name, self.options["tokenizer"], given["tokenizer"])
        options = {"blank_id": self.blank_id, **self.options, **given}
        if "max_symbols" not in given and options.get("max_symbols", 1) is None:
            raise ValueError(
                f"{self.source.name}: unsupported decoding.greedy: neither max_symbols nor max_symbols_per_step limits "
                f"the tokens of a frame; give max_symbols="
            )
        return options


def read_nemo(
    source: Any,
    activation: str | None,
    durations: Sequence[int] | None,
    given: Collection[str] = (),
    max_bytes: int | str | None = None,
) -> NemoModel:
    """The model of an archive, a safetensors file, a state dict or an object; `given` options override its own."""
    overrides = _Overrides(activation, durations, {*given} if durations is None else {*given, "durations"})
    if is_model(source):
        return _from_state_dict(_weights_of(source), Source(type(source).__name__), source.cfg, overrides)
    if isinstance(source, Mapping):
        return _from_state_dict(source, Source("state dict"), {}, overrides)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            f"expected the path of a .nemo archive, a model of NeMo or a state dict, got {type(source).__name__}"
        )
    file = file_source(source, max_bytes)
    if is_safetensors(source):
        return _from_state_dict(read_checkpoint(source), file, {}, overrides)
    config, weights = _read_archive(os.fsdecode(source), max_bytes)
    return _from_state_dict(weights, file, config, overrides)


@dataclass(frozen=True)
class _Overrides:
    """The options that the caller gives."""

    activation: str | None
    durations: Sequence[int] | None
    options: Collection[str]


def _read_archive(name: str, max_bytes: int | str | None) -> tuple[Any, Any]:
    found = read_members(name, (CONFIG, WEIGHTS), ARCHIVE, max_bytes)
    for needed in (CONFIG, WEIGHTS):
        if needed not in found:
            raise FormatError(f"{name}: expected {needed} in the archive, got none")
    config = read_config(found.pop(CONFIG), f"{name}: {CONFIG}", max_bytes)
    # The size of the unpacked archive has been checked; a checkpoint in it is judged by its own size.
    weights = read_torch_file(io.BytesIO(found.pop(WEIGHTS)), f"{name}: {WEIGHTS}", max_bytes)
    return config, weights


def _weights_of(model: Any) -> dict[str, Any]:
    """The state dict of a model object without its encoder, in float32 on the host."""
    weights = {key: value for key, value in model.state_dict().items() if key.startswith(PARTS)}
    return {key: value.detach().float().cpu().numpy() for key, value in weights.items()}


def _from_state_dict(weights: Any, source: Source, config: Any, overrides: _Overrides) -> NemoModel:
    name = source.name
    _refuse_other_modules(name, config)
    ours = source.take_tensors(weights, PARTS)
    output = _last_linear(name, ours)
    keys = {
        "encoder_weight": "joint.enc.weight",
        "encoder_bias": "joint.enc.bias",
        "prediction_weight": "joint.pred.weight",
        "prediction_bias": "joint.pred.bias",
        "output_weight": f"{output}.weight",
        "output_bias": f"{output}.bias",
    }
    joint_weights = {part: _take(source, ours, key) for part, key in keys.items()}
    keys |= {"embedding": f"{PREDICTION}embed.weight"}
    keys |= {our_key: f"{LSTM}{our_key}" for our_key in (key.removeprefix(LSTM) for key in ours if LSTM in key)}
    options = options_of(name, config, overrides.options)
    # A TDT's configuration may list blanks for losses that it was not trained with.
    blanks = MULTI_BLANK[:1] if "durations" in options else MULTI_BLANK
    if overrides.durations is not None:
        options["durations"] = list(overrides.durations)
    outputs = len(joint_weights["output_weight"])
    with named_as(name, keys, source.error):
        prediction = _prediction(source, ours, {outputs, outputs - len(options.get("durations", ()))})
    source.check_tables(prediction)
    if ours:
        raise FormatError(f"{name}: unsupported layer {sorted(ours)[0]}")
    wide = next((path for path in blanks if get(config, path)), None)
    if wide is not None and outputs != prediction.tokens:
        raise FormatError(f"{name}: unsupported multi-blank transducer: {wide} is {get(config, wide)}")
    if outputs == prediction.tokens and overrides.durations is None:
        options.pop("durations", None)  # the configuration of an RNN-T may list some
    elif "durations" not in options:
        raise ValueError(
            f"{name}: {outputs} outputs for {prediction.tokens} tokens, as in a TDT; its durations are not in the "
            f"configuration, give durations="
        )
    if "tokenizer" not in overrides.options:
        check_pieces(name, options, prediction.tokens)
    activation = overrides.activation or activation_of(name, config)
    with named_as(name, keys, source.error):
        joint = Joint(**joint_weights, activation=activation)
    return NemoModel(source, keys, prediction, joint, prediction.tokens - 1, options)


def _refuse_other_modules(name: str, config: Any) -> None:
    for part, known in (("decoder", DECODERS), ("joint", JOINTS)):
        target = str(get(config, f"{part}._target_", known[0])).rpartition(".")[2]
        if target not in known:
            raise FormatError(f"{name}: unsupported {part} {target}, expected {' or '.join(known)}")
    normalization = get(config, "decoder.normalization_mode")
    if normalization is not None:
        raise FormatError(f"{name}: unsupported decoder.normalization_mode {normalization}, expected none")


def _take(source: Source, weights: dict[str, Any], key: str) -> np.ndarray:
    if key not in weights:
        raise FormatError(f"{source.name}: expected {key}, got none")
    value = weights.pop(key)
    axes = ("outputs",) if "bias" in key.rpartition(".")[2] else ("outputs", "inputs")
    with named_as(source.name, {key: key}, source.error):
        return as_weights(key, value, axes)


def _last_linear(name: str, weights: dict[str, Any]) -> str:
    """The output layer follows the activation, and a dropout if the model was trained with one."""
    found = sorted({key.rpartition(".")[0] for key in weights if key.startswith("joint.joint_net.")})
    if not found:
        raise FormatError(f"{name}: expected joint.joint_net.N.weight, the joint network's output, got none")
    return found[-1]


def _prediction(source: Source, weights: dict[str, Any], tokens: set[int]) -> LstmPrediction | StatelessPrediction:
    """The prediction network; `tokens`: how many there may be, the blank included."""
    places = [key for key in weights if re.fullmatch(r"decoder\.prediction\.embeds\.[0-9]+\.weight", key)]
    if places:
        # The first table is that of the last token, and the tables' outputs lie side by side.
        if len(places) > MOST_PLACES:
            raise FormatError(
                f"{source.name}: unsupported context of {len(places)} tokens, expected at most {MOST_PLACES}"
            )
        tables = [_take(source, weights, f"{PREDICTION}embeds.{i}.weight") for i in range(len(places))]
        for i, table in enumerate(tables):
            with named_as(source.name, {"table": f"{PREDICTION}embeds.{i}.weight"}, source.error):
                check_shape("table", table, (len(tables[0]), table.shape[1]))
        begins = np.cumsum([0, *(table.shape[1] for table in tables)])
        source.check_bytes(4 * len(tables) * len(tables[0]) * int(begins[-1]), TABLES)
        stacked = np.zeros((len(tables), len(tables[0]), int(begins[-1])), np.float32)
        for i, table in enumerate(tables):
            stacked[len(tables) - 1 - i, :, begins[i] : begins[i + 1]] = table
        return StatelessPrediction(stacked)
    embedding = _take(source, weights, f"{PREDICTION}embed.weight")
    if f"{LSTM}weight_hh_l0" not in weights:
        raise FormatError(f"{source.name}: expected {LSTM}weight_hh_l0, the only recurrent network supported, got none")
    layers: list[LstmLayer] = []
    while f"{LSTM}weight_hh_l{len(layers)}" in weights:
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        layers.append(LstmLayer(*(_take(source, weights, f"{LSTM}{kind}_l{len(layers)}") for kind in kinds)))
    if len(embedding) not in tokens and len(embedding) + 1 in tokens:  # the blank's row is zero and was left out
        embedding = np.concatenate([embedding, np.zeros((1, embedding.shape[1]), np.float32)])
    return LstmPrediction(embedding, layers)
