"""Reads transducers of icefall: checkpoints and state dicts, by the names of their parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from arcbeam.errors import FormatError
from arcbeam.transducer_network import Joint, StatelessPrediction, as_weights, named_as
from arcbeam.transducer_torch_file import read_torch_file

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
    source: str | os.PathLike[str] | Mapping[str, Any], relu: bool | None
) -> tuple[str, StatelessPrediction, Joint]:
    """What messages call a checkpoint or a state dict, and its networks.

    See :meth:`arcbeam.TransducerDecoder.from_icefall`.
    """
    if isinstance(source, Mapping):
        name, weights = "state dict", source
    elif isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        weights = read_torch_file(name, name)
    else:
        raise TypeError(f"expected the path of a checkpoint or a state dict, got {type(source).__name__}")
    if isinstance(weights, Mapping) and isinstance(weights.get("model"), Mapping):
        weights = weights["model"]
    if not isinstance(weights, Mapping):
        raise FormatError(f"{name}: expected a state dict, got {type(weights).__name__}")
    ours = {
        key: value
        for key, value in weights.items()
        if str(key).startswith(("decoder.", "joiner.")) and "balancer" not in str(key)  # those act in training alone
    }
    embedding = _take(name, ours, KEYS["embedding"], "decoder.embedding.scale")
    convolution = None
    if KEYS["convolution"] in ours:
        convolution = _take(name, ours, KEYS["convolution"], "decoder.conv.weight_scale")
    joint = {part: _take(name, ours, key, f"{key}_scale") for part, key in KEYS.items() if key.startswith("joiner.")}
    if ours:
        raise FormatError(f"{name}: unsupported layer {sorted(ours)[0]}")
    relu = convolution is not None if relu is None else relu
    with named_as(name, KEYS):
        return name, StatelessPrediction(embedding, convolution, relu=relu), Joint(**joint, activation="tanh")


def _take(name: str, weights: dict[str, Any], key: str, scale_key: str) -> np.ndarray:
    """A tensor, times e to the power of its scale, which models of 2022 keep apart."""
    if key not in weights:
        raise FormatError(f"{name}: expected {key}, got none")
    value = weights.pop(key)
    tensor = as_weights(key, value, [f"axis {i}" for i in range(np.ndim(value))])
    scale = weights.pop(scale_key, None)
    if scale is None:
        return tensor
    return tensor * np.exp(as_weights(scale_key, scale, [f"axis {i}" for i in range(np.ndim(scale))]))
