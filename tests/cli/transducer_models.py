"""Models of the command line's tests for transducers, and encoder output for them."""

import numpy as np
import pytest

from tests.transducer.archives import icefall_names, nemo_file, nemo_names, torch_file
from tests.transducer.networks import random_arrays, random_frames

CONFIG = """
preprocessor: {window_stride: 0.01}
encoder: {subsampling_factor: 8}
joint: {jointnet: {activation: relu}, vocabulary: [▁a, b, ▁c, d, e, ▁f, g, ▁h, i, j, k, ▁l]}
decoding: {strategy: greedy, greedy: {max_symbols: 2}}
"""
QUIET, BLANK = 6, 12  # the feature that makes the model write a blank, the blank
FRAMES = {name: random_frames(i, 30) for i, name in enumerate(["one", "two"])}


def speech(rows):
    """The frames without silence."""
    return np.where(np.arange(rows.shape[1]) == QUIET, np.float32(0.0), rows)


def write_icefall(path):
    """A stateless model without pieces."""
    stateless = random_arrays(6, layers=0, context=2, groups=3, blank_bias=2.0)
    del stateless["convolution_bias"]
    path.write_bytes(torch_file({"model": icefall_names(stateless)}))


def write_models(folder):
    """m.nemo, which hears silence, the same without a frame shift, m.pt, and in.npz."""
    pytest.importorskip("yaml", reason="the package pyyaml reads a model's configuration")
    arrays = random_arrays(6, blank=BLANK, blank_bias=2.0)
    for name in ("encoder_weight", "encoder_bias", "prediction_weight", "prediction_bias"):
        arrays[name][0] = 0.0
    arrays["encoder_weight"][0, QUIET] = 1.0
    arrays["output_weight"][:, 0] = 50.0 * (np.arange(13) == BLANK)
    nemo_file(folder / "m.nemo", CONFIG, nemo_names(arrays))
    nemo_file(folder / "unknown.nemo", CONFIG.replace("window_stride: 0.01", ""), nemo_names(arrays))
    write_icefall(folder / "m.pt")
    np.savez(folder / "in.npz", **{name: speech(rows) for name, rows in FRAMES.items()})
