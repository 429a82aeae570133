"""Random transducers, and strategies that draw them."""

from functools import partial
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from arcbeam.transducer import engines


def on_unit(kernels):
    """While this lasts, decoders that are made compute on this vector unit."""
    return mock.patch.object(engines, "pack", partial(engines.pack, kernels=kernels))


NETWORKS = {
    "rnnt": {"layers": 2},
    "tdt": {"layers": 1, "durations": 4},
    "stateless": {"layers": 0, "context": 2, "groups": 3},
    "stateless tdt": {"layers": 0, "durations": 4},
}


def random_arrays(
    seed,
    *,
    tokens=13,
    size=9,
    units=11,
    joint=15,
    features=7,
    durations=0,
    layers=1,
    context=0,
    groups=1,
    biases=True,
    blank=0,
    blank_bias=1.0,
):
    """Weights by the names of ``from_arrays``; layers=0: a stateless network, context=0: one without convolution."""
    rng = np.random.default_rng(seed)

    def weights(*shape):
        return (rng.standard_normal(shape) * (1.5 / np.sqrt(shape[-1]))).astype(np.float32)

    arrays = {}
    if layers:
        arrays["embedding"] = weights(tokens, size) * 2
        for layer in range(layers):
            arrays[f"weight_ih_l{layer}"] = weights(4 * units, units if layer else size)
            arrays[f"weight_hh_l{layer}"] = weights(4 * units, units)
            if biases:
                arrays[f"bias_ih_l{layer}"] = weights(4 * units)
                arrays[f"bias_hh_l{layer}"] = weights(4 * units)
    elif context:
        arrays["embedding"] = weights(tokens, size * groups) * 2
        arrays["convolution"] = weights(units * groups, size, context)
        units = units * groups
        if biases:
            arrays["convolution_bias"] = weights(units)
    else:
        arrays["embedding"] = weights(2, tokens, units) * 2
    arrays["encoder_weight"] = weights(joint, features)
    arrays["prediction_weight"] = weights(joint, units)
    arrays["output_weight"] = weights(tokens + durations, joint) * 2
    if biases:
        arrays["encoder_bias"] = weights(joint)
        arrays["prediction_bias"] = weights(joint)
        arrays["output_bias"] = weights(tokens + durations)
        arrays["output_bias"][blank] += blank_bias
    return arrays


def random_frames(seed, frames, features=7):
    return np.random.default_rng([seed, 1]).standard_normal((frames, features)).astype(np.float32)


@st.composite
def cases(draw):
    """(arrays, options of from_arrays, frames of each utterance)."""
    tokens = draw(st.integers(1, 40))
    blank = draw(st.sampled_from([0, tokens - 1, tokens // 2]))
    durations = draw(st.none() | st.lists(st.sampled_from([0, 1, 2, 3, 5, 9]), min_size=1, max_size=4))
    features = draw(st.integers(1, 70))
    layers = draw(st.integers(0, 3))
    seed = draw(st.integers(0, 2**32 - 1))
    arrays = random_arrays(
        seed,
        tokens=tokens,
        size=draw(st.integers(1, 40)),
        units=draw(st.integers(1, 40)),
        joint=draw(st.integers(1, 70)),
        features=features,
        durations=len(durations or ()),
        layers=layers,
        context=draw(st.integers(0, 3)),
        groups=draw(st.integers(1, 3)),
        biases=draw(st.booleans()),
        blank=blank,
        blank_bias=draw(st.sampled_from([-4.0, 0.0, 1.0, 3.0])),
    )
    options = {
        "blank_id": blank,
        "durations": durations,
        "max_symbols": draw(st.integers(1, 4)),
        "activation": draw(st.sampled_from(["tanh", "relu", "sigmoid"])),
        "relu": draw(st.booleans()),
    }
    lengths = draw(st.lists(st.integers(0, 12), min_size=1, max_size=3))
    frames = [random_frames(seed + i, n, features) for i, n in enumerate(lengths)]
    return arrays, options, frames
