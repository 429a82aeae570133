"""The weights of a transducer as engines read them: on GPUs (``cuda/transducer/device_network.hpp``), in bfloat16."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from arcbeam.transducer._transducer import multiply
from arcbeam.transducer.network import Joint, LstmLayer, LstmPrediction, StatelessPrediction

STEP = 32
"""Inputs are padded to a multiple of this: one partial sum for each."""
ROW_GROUP = 16
"""Rows are padded to a multiple of this."""


def padded(count: int, to: int) -> int:
    """`count`, rounded up to a multiple of `to`."""
    return -(-count // to) * to


def device_weights(
    prediction: LstmPrediction | StatelessPrediction, joint: Joint, precision: str = "float32"
) -> dict[str, Any]:
    """The arrays by name: padded matrices, biases or None, and tables of all that depends on a token alone."""
    # encoder, prediction, output; of an LSTM recurrent_l0, input_l1, ...: float32 or bfloat16 bits [rows, stride]; all
    # but the recurrent ones have a ..._bias. tables: float32[tokens, 4 * units], or [context, tokens, units].
    arrays: dict[str, Any] = {}

    def matrix_of(weight: np.ndarray) -> np.ndarray:
        matrix = _padded_matrix(weight)
        return matrix if precision == "float32" else (matrix.view(np.uint32) >> np.uint32(16)).astype(np.uint16)

    for name in ("encoder", "prediction", "output"):
        arrays[name] = matrix_of(getattr(joint, f"{name}_weight"))
        arrays[f"{name}_bias"] = getattr(joint, f"{name}_bias")
    if isinstance(prediction, StatelessPrediction):
        arrays["tables"] = _places(prediction)
        arrays["convolution_bias"] = prediction.convolution_bias
        return arrays
    for i, layer in enumerate(prediction.layers):
        arrays[f"recurrent_l{i}"] = matrix_of(_by_unit(layer.weight_hh))
        if i:
            arrays[f"input_l{i}"] = matrix_of(_by_unit(layer.weight_ih))
            arrays[f"input_l{i}_bias"] = _by_unit(_gate_bias(layer))
    first = prediction.layers[0]
    gates = multiply(first.weight_ih, _gate_bias(first), prediction.embedding)
    arrays["tables"] = np.ascontiguousarray(_by_unit(gates.T).T)
    return arrays


def _padded_matrix(weight: np.ndarray) -> np.ndarray:
    rows, inputs = weight.shape
    matrix = np.zeros((padded(rows, ROW_GROUP), padded(inputs, STEP)), np.float32)
    matrix[:rows, :inputs] = weight
    return matrix


def _by_unit(rows: np.ndarray) -> np.ndarray:
    """Rows ordered by gate, rearranged to be ordered by unit, with the four gates of each unit together."""
    units = len(rows) // 4
    return np.ascontiguousarray(np.swapaxes(rows.reshape(4, units, *rows.shape[1:]), 0, 1)).reshape(rows.shape)


def _gate_bias(layer: LstmLayer) -> np.ndarray:
    """Both biases, added as the CPU's engine adds them."""
    bias = np.zeros(len(layer.weight_hh), np.float32)
    for part in (layer.bias_ih, layer.bias_hh):
        if part is not None:
            bias += part
    return bias


def _places(prediction: StatelessPrediction) -> np.ndarray:
    """The vector that each token adds at each place of the context: float32[context, tokens, units]."""
    embedding, weights = prediction.embedding, prediction.convolution
    if weights is None:
        return np.ascontiguousarray(embedding)
    units, inputs, context = weights.shape
    outputs = units // prediction.groups
    tables = np.empty((context, len(embedding), units), np.float32)
    for place in range(context):
        for group in range(prediction.groups):
            rows = slice(group * outputs, (group + 1) * outputs)
            part = np.ascontiguousarray(embedding[:, group * inputs : (group + 1) * inputs])
            tables[place, :, rows] = multiply(np.ascontiguousarray(weights[rows, :, place]), None, part)
    return tables


def rounded(
    prediction: LstmPrediction | StatelessPrediction, joint: Joint
) -> tuple[LstmPrediction | StatelessPrediction, Joint]:
    """The networks with weights of bfloat16 (a float32's upper half, ties to even), as float32; biases stay."""
    joint = replace(joint, **_named(joint, "encoder_weight", "prediction_weight", "output_weight"))
    if isinstance(prediction, StatelessPrediction):
        names = ("embedding",) if prediction.convolution is None else ("embedding", "convolution")
        return replace(prediction, **_named(prediction, *names)), joint
    layers = [
        replace(layer, **_named(layer, "weight_ih", "weight_hh", suffix=f"_l{i}"))
        for i, layer in enumerate(prediction.layers)
    ]
    return replace(prediction, layers=layers, **_named(prediction, "embedding")), joint


def _named(owner: object, *names: str, suffix: str = "") -> dict[str, Any]:
    return {name: _round(name + suffix, getattr(owner, name)) for name in names}


def _round(name: str, weights: np.ndarray) -> np.ndarray:
    bits = weights.view(np.uint32)
    nearest = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    values = (nearest & np.uint32(0xFFFF0000)).view(np.float32)
    if not np.isfinite(values).all():
        where = np.unravel_index(int(np.argmin(np.isfinite(values))), values.shape)
        raise ValueError(
            f"{name}: expected weights up to 3.39e38, the largest bfloat16, got {weights[where]:.4g} at "
            f"{[int(i) for i in where]}"
        )
    return values
