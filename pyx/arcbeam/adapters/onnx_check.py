"""Whether the network that was read from ONNX files computes what the files compute, on a few tokens and frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from arcbeam.adapters.onnx_weights import Network
from arcbeam.core.errors import UnsupportedError
from arcbeam.files.reading import reason_of
from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction, from_mapping

STEPS = 4  # the blank and three tokens: more than any context that onnx-asr has
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 0.5 + 0.5 * np.tanh(0.5 * x),
}

Array = np.ndarray[Any, Any]


def check_network(network: Network, asr: Any, blank: int) -> None:
    """UnsupportedError unless the logits of the network and those of onnx-asr's model agree.

    Without this check a layer that was not recognised would be left out, and the words would be wrong without an error.

    Parameters
    ----------
    network : Network
    asr : onnx-asr's model, whose method ``_decode`` runs the files for one frame
    blank : int
    """
    assert network.activation is not None
    prediction, joint = from_mapping(network.arrays, network.activation, network.relu)
    generator = np.random.default_rng(0)
    frames = generator.standard_normal((STEPS, joint.encoder_weight.shape[1])).astype(np.float32)
    written = [token for token in generator.permutation(network.tokens).tolist() if token != blank][: STEPS - 1]
    state = asr._create_state()
    for step, frame in enumerate(frames[: len(written) + 1]):
        tokens = written[:step]
        try:
            theirs, duration, state = asr._decode(tokens, state, frame)
        except Exception as error:  # whatever onnxruntime raises
            raise UnsupportedError(f"{network.name}: it cannot be run as onnx-asr does ({reason_of(error)})") from error
        ours = _logits(prediction, joint, [blank, *tokens], frame)
        durations = ours[network.tokens :]
        ours, theirs = ours[: network.tokens], np.asarray(theirs, np.float32)
        # The files may end with a log-softmax, which moves all logits by as much.
        difference = np.abs((ours - ours.mean()) - (theirs - theirs.mean())).max()
        most = network.tolerance * max(1.0, float(np.abs(ours).max()))
        # Of the durations onnx-asr returns the best alone, which is one of the best here.
        others = durations.size and durations[duration] < durations.max() - most
        if not difference <= most or others:
            raise UnsupportedError(
                f"{network.name}: the prediction and joint network compute more than the layers that were found in "
                f"them (after {step} tokens a logit differs by {difference:.3g}): a network of another kind"
            )


def _logits(prediction: LstmPrediction | StatelessPrediction, joint: Joint, tokens: list[int], frame: Array) -> Array:
    """The joint network's outputs after some tokens, of which the first is the blank."""
    output = _lstm(prediction, tokens) if isinstance(prediction, LstmPrediction) else _stateless(prediction, tokens)
    hidden = _linear(joint.encoder_weight, joint.encoder_bias, frame)
    hidden = hidden + _linear(joint.prediction_weight, joint.prediction_bias, output)
    return _linear(joint.output_weight, joint.output_bias, ACTIVATIONS[joint.activation](hidden))


def _linear(weight: Array, bias: Array | None, values: Array) -> Array:
    product: Array = weight @ values
    return product if bias is None else product + bias


def _lstm(prediction: LstmPrediction, tokens: list[int]) -> Array:
    sigmoid = ACTIVATIONS["sigmoid"]
    states = [np.zeros((2, prediction.units), np.float32) for _ in prediction.layers]
    values = prediction.embedding[0]
    for token in tokens:
        values = prediction.embedding[token]
        for layer, state in zip(prediction.layers, states, strict=True):
            gates = _linear(layer.weight_ih, layer.bias_ih, values) + _linear(layer.weight_hh, layer.bias_hh, state[0])
            take, forget, candidate, give = np.split(gates, 4)
            state[1] = sigmoid(forget) * state[1] + sigmoid(take) * np.tanh(candidate)
            state[0] = values = sigmoid(give) * np.tanh(state[1])
    return np.asarray(values)


def _stateless(prediction: StatelessPrediction, tokens: list[int]) -> Array:
    """Before the first token the context is empty but for the blank; an empty place adds nothing."""
    output = np.zeros(prediction.units, np.float32)
    if prediction.convolution_bias is not None:
        output += prediction.convolution_bias
    for place, token in enumerate(
        tokens[-prediction.context :], prediction.context - len(tokens[-prediction.context :])
    ):
        if prediction.convolution is None:
            output += prediction.embedding[place, token]
            continue
        inputs = prediction.embedding[token].reshape(prediction.groups, -1)
        weights = prediction.convolution[:, :, place].reshape(prediction.groups, -1, inputs.shape[1])
        output += np.einsum("goi,gi->go", weights, inputs).reshape(-1)
    return np.maximum(output, 0) if prediction.relu else output
