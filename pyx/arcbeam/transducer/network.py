"""The weights of a transducer: prediction networks and the joint network, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ACTIVATIONS = ("tanh", "relu", "sigmoid")


class WeightsError(ValueError):
    """An array of weights does not fit: its `name`, which is another in a file, and the reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class WeightsTypeError(WeightsError, TypeError):
    """An array of weights has values of another type."""


@dataclass(frozen=True, eq=False)
class LstmLayer:
    """One layer of an LSTM, as torch stores it: gates in the order input, forget, candidate, output.

    Attributes
    ----------
    weight_ih : float32[4 * units, inputs]
    weight_hh : float32[4 * units, units]
    bias_ih, bias_hh : float32[4 * units], optional
    """

    weight_ih: Any
    weight_hh: Any
    bias_ih: Any = None
    bias_hh: Any = None


@dataclass(frozen=True, eq=False)
class LstmPrediction:
    """A prediction network of an embedding and an LSTM of one or more layers. It starts from the blank.

    Attributes
    ----------
    embedding : float32[tokens, size]
        The blank's row included.
    layers : sequence of LstmLayer
        All with the same number of units.
    """

    embedding: Any
    layers: Sequence[LstmLayer]

    @property
    def tokens(self) -> int:
        """Size of the vocabulary, the blank included."""
        return len(self.embedding)

    @property
    def units(self) -> int:
        """Size of the output."""
        return int(self.layers[0].weight_hh.shape[1])

    def __post_init__(self) -> None:
        embedding = as_weights("embedding", self.embedding, ("tokens", "size"))
        if not self.layers:
            raise ValueError("layers: expected at least one LSTM layer, got none")
        layers = []
        inputs, units = embedding.shape[1], None
        for i, layer in enumerate(self.layers):
            recurrent = as_weights(f"weight_hh_l{i}", layer.weight_hh, ("4 * units", "units"))
            units = units or recurrent.shape[1]
            check_shape(f"weight_hh_l{i}", recurrent, (4 * units, units))
            weight = as_weights(f"weight_ih_l{i}", layer.weight_ih, ("4 * units", "inputs"))
            check_shape(f"weight_ih_l{i}", weight, (4 * units, inputs))
            bias_ih = as_bias(f"bias_ih_l{i}", layer.bias_ih, 4 * units)
            bias_hh = as_bias(f"bias_hh_l{i}", layer.bias_hh, 4 * units)
            layers.append(LstmLayer(weight, recurrent, bias_ih, bias_hh))
            inputs = units
        object.__setattr__(self, "embedding", embedding)
        object.__setattr__(self, "layers", tuple(layers))


@dataclass(frozen=True, eq=False)
class StatelessPrediction:
    """A prediction network that sees the last tokens only: embedding and 1-D convolution.

    Its output is the sum, over the last ``context`` tokens, of what each place adds, plus the bias, followed by a ReLU
    if `relu` is set. Before the first token the context is empty but for the blank; an empty place adds nothing.

    Attributes
    ----------
    embedding : float32[tokens, size], or float32[context, tokens, units] without a convolution
        In the second form each place has a table of its own, oldest first; two dimensions mean ``[1, tokens, units]``.
    convolution : float32[units, size / groups, context], optional
        Oldest token first, as torch's ``Conv1d``.
    convolution_bias : float32[units], optional
    relu : bool
    groups : int
        The number of groups of the convolution, which follows from its shape.
    """

    embedding: Any
    convolution: Any = None
    convolution_bias: Any = None
    relu: bool = False
    groups: int = field(init=False, default=1)

    @property
    def tokens(self) -> int:
        """Size of the vocabulary, the blank included."""
        return int(self.embedding.shape[-2])

    @property
    def units(self) -> int:
        """Size of the output."""
        return int(self.embedding.shape[-1] if self.convolution is None else self.convolution.shape[0])

    @property
    def context(self) -> int:
        """The number of tokens that the network sees."""
        return int(self.embedding.shape[0] if self.convolution is None else self.convolution.shape[2])

    def __post_init__(self) -> None:
        if self.convolution is None:
            tables = np.ndim(self.embedding) == 3
            axes = ("context", "tokens", "units") if tables else ("tokens", "units")
            embedding = as_weights("embedding", self.embedding, axes)
            embedding = embedding if tables else embedding[None]
        else:
            embedding = as_weights("embedding", self.embedding, ("tokens", "size"))
            convolution = as_weights("convolution", self.convolution, ("units", "size / groups", "context"))
            units, inputs, _ = convolution.shape
            if embedding.shape[1] % inputs or units % (embedding.shape[1] // inputs):
                raise WeightsError(
                    "convolution",
                    f"expected [units, size / groups, context] for an embedding of size {embedding.shape[1]}, got "
                    f"{list(convolution.shape)}, which does not fit any number of groups",
                )
            object.__setattr__(self, "convolution", convolution)
            object.__setattr__(self, "groups", embedding.shape[1] // inputs)
        object.__setattr__(self, "embedding", embedding)
        object.__setattr__(self, "convolution_bias", as_bias("convolution_bias", self.convolution_bias, self.units))


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint network: ``output(activation(encoder(x) + prediction(y)))``.

    Attributes
    ----------
    encoder_weight : float32[joint, features]
    prediction_weight : float32[joint, units]
    output_weight : float32[tokens + durations, joint]
        The tokens' rows, the blank included, then those of a TDT's durations.
    encoder_bias, prediction_bias : float32[joint], optional
    output_bias : float32[tokens + durations], optional
    activation : str
        ``"tanh"``, ``"relu"`` or ``"sigmoid"``.
    """

    encoder_weight: Any
    prediction_weight: Any
    output_weight: Any
    encoder_bias: Any = None
    prediction_bias: Any = None
    output_bias: Any = None
    activation: str = "tanh"

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation: expected one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")
        encoder = as_weights("encoder_weight", self.encoder_weight, ("joint", "features"))
        prediction = as_weights("prediction_weight", self.prediction_weight, ("joint", "units"))
        output = as_weights("output_weight", self.output_weight, ("tokens + durations", "joint"))
        check_shape("prediction_weight", prediction, (len(encoder), prediction.shape[1]))
        check_shape("output_weight", output, (len(output), len(encoder)))
        for name, value in (
            ("encoder_weight", encoder),
            ("prediction_weight", prediction),
            ("output_weight", output),
            ("encoder_bias", as_bias("encoder_bias", self.encoder_bias, len(encoder))),
            ("prediction_bias", as_bias("prediction_bias", self.prediction_bias, len(encoder))),
            ("output_bias", as_bias("output_bias", self.output_bias, len(output))),
        ):
            object.__setattr__(self, name, value)


def from_mapping(arrays: Mapping[str, Any], activation: str, relu: bool) -> tuple[Any, Joint]:
    """The networks whose weights have the names that :meth:`arcbeam.TransducerDecoder.from_arrays` explains."""
    joint_names = [name for name in Joint.__dataclass_fields__ if name != "activation"]
    lstm_names = {f"{kind}_l{i}" for kind in LstmLayer.__dataclass_fields__ for i in range(_layers(arrays))}
    stateless_names = {"convolution", "convolution_bias"}
    is_lstm = bool(lstm_names)
    known = {"embedding", *joint_names, *(lstm_names if is_lstm else stateless_names)}
    unknown = sorted(str(name) for name in set(arrays) - known)
    if unknown:
        raise ValueError(f"arrays: unknown array {', '.join(unknown)}: expected some of {', '.join(sorted(known))}")
    needed = ["embedding", "encoder_weight", "prediction_weight", "output_weight"]
    needed += [f"{kind}_l{i}" for kind in ("weight_ih", "weight_hh") for i in range(_layers(arrays))]
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise ValueError(f"arrays: missing array {', '.join(missing)}: got {', '.join(sorted(arrays)) or 'none'}")
    joint = Joint(**{name: arrays[name] for name in joint_names if name in arrays}, activation=activation)
    if not is_lstm:
        convolution = {name: arrays[name] for name in stateless_names if name in arrays}
        return StatelessPrediction(arrays["embedding"], **convolution, relu=relu), joint
    layers = [
        LstmLayer(*(arrays.get(f"{kind}_l{i}") for kind in LstmLayer.__dataclass_fields__))
        for i in range(_layers(arrays))
    ]
    return LstmPrediction(arrays["embedding"], layers), joint


def _layers(arrays: Mapping[str, Any]) -> int:
    return sum(str(name).startswith("weight_hh_l") for name in arrays)


def as_weights(name: str, value: Any, axes: Sequence[str]) -> np.ndarray:
    """A tensor as a contiguous float32 array of its own, after checks of its dimensions and values."""
    if hasattr(value, "detach"):  # torch; numpy has no bfloat16, and float32 holds it exactly
        value = value.detach().cpu().float().numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise WeightsError(name, f"expected an array [{', '.join(axes)}] ({error})") from None
    if array.dtype.kind != "f":
        raise WeightsTypeError(name, f"expected an array of floats, got {array.dtype}")
    if array.ndim != len(axes) or 0 in array.shape:
        raise WeightsError(name, f"expected [{', '.join(axes)}], none of them 0, got shape {list(array.shape)}")
    with np.errstate(over="ignore"):
        array = np.array(array, dtype=np.float32, order="C")  # a copy, which stays what is checked here
    if not np.isfinite(array).all():
        where = np.unravel_index(int(np.argmin(np.isfinite(array))), array.shape)
        raise WeightsError(name, f"expected finite float32 weights, got {array[where]} at {[int(i) for i in where]}")
    return array


def as_bias(name: str, value: Any, size: int) -> np.ndarray | None:
    """A bias of this size, or None."""
    if value is None:
        return None
    bias = as_weights(name, value, (str(size),))
    check_shape(name, bias, (size,))
    return bias


@contextmanager
def named_as(source: str, keys: Mapping[str, str], kind: type[ValueError] = ValueError) -> Iterator[None]:
    """A context that makes an error about one of our arrays a `kind` that names the key which it has in a file."""
    try:
        yield
    except WeightsError as error:
        if error.name not in keys:
            raise
        if kind is ValueError and isinstance(error, TypeError):
            raise TypeError(f"{source}: {keys[error.name]}: {error.reason}") from None
        raise kind(f"{source}: {keys[error.name]}: {error.reason}") from None


def check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raises WeightsError unless an array has this shape."""
    if array.shape != shape:
        raise WeightsError(name, f"expected shape {list(shape)}, got {list(array.shape)}")
