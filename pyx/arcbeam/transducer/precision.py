"""Weights of transducers in bfloat16: the upper half of a float32, rounded to the nearest, ties to even."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction


def rounded(
    prediction: LstmPrediction | StatelessPrediction, joint: Joint
) -> tuple[LstmPrediction | StatelessPrediction, Joint]:
    """The networks with weights of bfloat16, held as float32; biases stay as they are."""
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
