"""Reads transducers of icefall: checkpoints and state dicts, by the names of their parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.transducer.checkpoints.checkpoint import Source, file_source, read_checkpoint
from arcbeam.transducer.network import Joint, StatelessPrediction, WeightsError, as_weights, named_as

KEYS = {
    "embedding": "decoder.embedding.weight",
    "convolution": "decoder.conv.weight",
    "encoder_weight": "joiner.encoder_proj.weight",
    "encoder_bias": "joiner.encoder_proj.bias",
    "prediction_weight": "joiner.decoder_proj.weight",
    "prediction_bias": "joiner.decoder_proj.bias",
    "output_weight": "joiner.output_linear.weight",
    "output_bias": "joiner.output_linear.bias",
}


def read_icefall(
    source: str | os.PathLike[str] | Mapping[str, Any], relu: bool | None, max_bytes: int | str | None = None
) -> tuple[Source, StatelessPrediction, Joint]:
    """The source of a checkpoint or a state dict, and its networks; see `TransducerDecoder.from_icefall`."""
    if isinstance(source, Mapping):
        return _from_state_dict(source, Source("state dict"), relu)
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"expected the path of a checkpoint or a state dict, got {type(source).__name__}")
    file = file_source(source, max_bytes)
    return _from_state_dict(read_checkpoint(source, max_bytes), file, relu)


def _from_state_dict(weights: Any, source: Source, relu: bool | None) -> tuple[Source, StatelessPrediction, Joint]:
    if isinstance(weights, Mapping) and isinstance(weights.get("model"), Mapping):
        weights = weights["model"]
    ours = {
        key: value
        for key, value in source.take_tensors(weights, ("decoder.", "joiner.")).items()
        if "balancer" not in key  # balancers act in training alone
    }
    embedding = _take(source, ours, KEYS["embedding"], "decoder.embedding.scale")
    convolution = None
    if KEYS["convolution"] in ours:
        convolution = _take(source, ours, KEYS["convolution"], "decoder.conv.weight_scale")
    joint = {part: _take(source, ours, key, f"{key}_scale") for part, key in KEYS.items() if key.startswith("joiner.")}
    if ours:
        raise FormatError(f"{source.name}: unsupported layer {sorted(ours)[0]}")
    relu = convolution is not None if relu is None else relu
    with named_as(source.name, KEYS, source.error):
        prediction = StatelessPrediction(embedding, convolution, relu=relu)
        made = source, prediction, Joint(**joint, activation="tanh")
    source.check_tables(prediction)
    return made


def _take(source: Source, weights: dict[str, Any], key: str, scale_key: str) -> np.ndarray:
    """A tensor, times e to the power of its scale, which models of 2022 store separately."""
    if key not in weights:
        raise FormatError(f"{source.name}: expected {key}, got none")
    value, scale = weights.pop(key), weights.pop(scale_key, None)
    with named_as(source.name, {key: key, scale_key: scale_key}, source.error):
        tensor = as_weights(key, value, [f"axis {i}" for i in range(np.ndim(value))])
        if scale is None:
            return tensor
        factor = np.exp(as_weights(scale_key, scale, [f"axis {i}" for i in range(np.ndim(scale))]))
        if factor.size != 1:  # the product of two axes may be far larger than either
            raise WeightsError(scale_key, f"expected one number, got shape {list(factor.shape)}")
        return tensor * factor.reshape(())
