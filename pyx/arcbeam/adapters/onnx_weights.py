"""The weights of a transducer's prediction and joint network, from ONNX files, by what the graph computes with them.

Exporters keep few names of parameters, so the layers are told apart by their inputs. A value depends on the encoder's
output, on the tokens before, or on both. The one linear layer of each kind is the projection of the encoder, that of
the prediction network, and the output. `arcbeam.adapters.onnx_check` compares what was found with the files themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arcbeam.core.errors import FormatError, UnsupportedError
from arcbeam.core.packages import require
from arcbeam.files.reading import check_is_file, reading

EXPECTED = "an ONNX model"
ENCODER, TOKENS = "encoder", "prediction"  # what a value may depend on
LINEAR = {
    frozenset((ENCODER,)): "encoder",
    frozenset((TOKENS,)): "prediction",
    frozenset((ENCODER, TOKENS)): "output",
}
ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}
OF_SHAPES = ("Shape", "Size")  # nodes whose result depends on no value
GATES = (0, 2, 3, 1)  # ONNX has input, output, forget, candidate; we have input, forget, candidate, output
#: How far a logit may be from that of the files, as a part of the largest, by the kind of values that are stored: files
#: of float16 compute in float16, and those of int8 round what they multiply, too.
TOLERANCES = {"f4": 1e-3, "f2": 5e-2, "i1": 0.2}
QUANTISED = "_quantized"  # how onnxruntime ends the name of such a constant; its others end with these:
SCALE, ZERO = "_scale", "_zero_point"


@dataclass
class Network:
    """Weights by the names of `TransducerDecoder.from_arrays`, and what those do not say."""

    name: str  # what messages call its source
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    activation: str | None = None
    relu: bool = False
    tolerance: float = TOLERANCES["f4"]

    @property
    def tokens(self) -> int:
        """Size of the vocabulary, the blank included."""
        return len(self.arrays["embedding"])

    @property
    def outputs(self) -> int:
        """Tokens and, of a TDT, durations."""
        return len(self.arrays["output_weight"])

    def put(self, name: str, weight: np.ndarray[Any, Any]) -> None:
        """Keeps a weight; UnsupportedError for the second of a name."""
        if name in self.arrays:
            raise UnsupportedError(f"{self.name}: expected one {name}, got two: a network of another kind")
        self.arrays[name] = np.ascontiguousarray(weight, np.float32)


def read_network(paths: Sequence[str | os.PathLike[str]]) -> Network:
    """The prediction and the joint network, which lie in one file or in two.

    Raises
    ------
    UnsupportedError
        A network of another kind, or weights that are quantised in another way: the message says what was expected.
    FormatError, OSError
        A file is no ONNX model, or cannot be read, its file of external data included.
    MissingDependencyError
        The package onnx is missing.
    """
    network = Network(" and ".join(os.fsdecode(path) for path in paths))
    files = [_File(path) for path in paths]
    for file in files:
        _Layers(file, network).read()
    network.tolerance = max(file.tolerance for file in files)
    missing = [name for name in ("embedding", "output_weight") if name not in network.arrays]
    if network.activation is None:
        missing.append("activation of the joint network")
    if missing:
        kinds = ", ".join(sorted({node.op_type for file in files for node in file.nodes}))
        raise UnsupportedError(
            f"{network.name}: expected a prediction network of an embedding and an LSTM, or of an embedding and a "
            "convolution, and a joint network with one activation, in float32, float16, or int8 of onnxruntime's "
            f"dynamic quantisation; found no {' and no '.join(missing)} among the nodes {kinds}"
        )
    if network.outputs < network.tokens:
        raise UnsupportedError(
            f"{network.name}: expected an output for each of {network.tokens} tokens, got {network.outputs}"
        )
    # An export of icefall has the encoder's projection in the encoder; what is projected already stays as it is.
    joint = network.arrays["output_weight"].shape[1]
    network.arrays.setdefault("encoder_weight", np.eye(joint, dtype=np.float32))
    network.arrays.setdefault("prediction_weight", np.eye(joint, dtype=np.float32))
    network.relu &= "weight_hh_l0" not in network.arrays
    return network


class _File:
    """The graph of an ONNX file: its nodes in their order, and the values that are constant."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        onnx = require("onnx", "reading the weights of a transducer from ONNX files")
        check_is_file(path)
        self.name = os.fsdecode(path)
        with reading(path, EXPECTED):
            self.model = onnx.load(self.name)
            graph = self.model.graph
            self.nodes = list(graph.node)
            self.producers = {output: node for node in self.nodes for output in node.output if output}
            self.readers: dict[str, list[Any]] = {}
            for node in self.nodes:
                for name in node.input:
                    self.readers.setdefault(name, []).append(node)
            stored = {value.name for value in graph.initializer}
            self.inputs = [value.name for value in graph.input if value.name not in stored]
            self.tolerance = TOLERANCES["f4"]
            self._constants: dict[str, Any] = {value.name: value for value in graph.initializer}
        if not self.nodes:
            raise FormatError(f"{self.name}: expected {EXPECTED}, got one without nodes")
        self._onnx = onnx

    def constant(self, name: str) -> np.ndarray[Any, Any] | None:
        """The value of a name that depends on no input; None for any other."""
        found = self._constants.get(name)
        if found is None and name not in self._constants:
            found = self._constants[name] = self._folded(name)
        elif isinstance(found, self._onnx.TensorProto):
            with reading(self.name, EXPECTED):
                found = self._constants[name] = self._onnx.numpy_helper.to_array(found)
        return found

    def _folded(self, name: str) -> np.ndarray[Any, Any] | None:
        """What a node computes from constants alone: transposed, cast or dequantised weights."""
        node = self.producers.get(name)
        if node is None or node.domain not in ("", "ai.onnx"):
            return None
        values = {each: self.constant(each) for each in node.input if each}
        if any(value is None for value in values.values()):
            return None
        helper, reference = self._onnx.helper, require("onnx.reference", f"{self.name}: constants")
        with reading(self.name, EXPECTED):
            inputs = [
                helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                for each, value in values.items()
                if value is not None
            ]
            outputs = [helper.make_empty_tensor_value_info(each) for each in node.output]
            graph = helper.make_graph([node], "constant", inputs, outputs)
            model = helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version)
            found = reference.ReferenceEvaluator(model).run([name], values)[0]
        return np.asarray(found)

    def weight(self, name: str, dimensions: int) -> np.ndarray[Any, Any] | None:
        """A constant of floats with so many dimensions, or what it was before quantisation; None for anything else."""
        value = self.constant(name) if name else None
        if value is None or value.ndim != dimensions:
            return None
        if value.dtype.kind in "iu" and name.endswith(QUANTISED):
            stem = name.removesuffix(QUANTISED)
            scale, zero = self.constant(stem + SCALE), self.constant(stem + ZERO)
            if scale is None or zero is None:
                return None
            if scale.ndim == 2:  # of a layer of an LSTM [1, inputs, outputs]: a scale for each output
                scale, zero = scale[:, None], zero[:, None]
            self.tolerance = max(self.tolerance, TOLERANCES["i1"])
            found: np.ndarray[Any, Any] = (value.astype(np.float32) - zero.astype(np.float32)) * scale
            return found
        if value.dtype.kind != "f" and value.dtype.name != "bfloat16":
            return None
        self.tolerance = max(self.tolerance, TOLERANCES["f4" if value.dtype.itemsize > 2 else "f2"])
        return value.astype(np.float32)

    def after(self, name: str) -> Iterator[Any]:
        """The nodes that read a value, also after it has been cast or scaled."""
        for node in self.readers.get(name, []):
            yield node
            if node.op_type in ("Cast", "Mul"):
                yield from self.after(node.output[0])


class _Layers:
    """Takes the layers of one file into a network."""

    def __init__(self, file: _File, network: Network) -> None:
        self.file, self.network = file, network
        self.depends = {name: {ENCODER if "enc" in name.lower() else TOKENS} for name in file.inputs}
        self.layers = 0

    def read(self) -> None:
        """All layers, in the order of the nodes."""
        for node in self.file.nodes:
            found = set[str]()
            if node.op_type not in OF_SHAPES:
                found = found.union(*(self.depends.get(name, set()) for name in _names_read(node)))
            self.depends.update(dict.fromkeys(node.output, found))
            if not found:
                continue
            if node.op_type == "Gather":
                self._take("embedding", self.file.weight(node.input[0], 2))
            elif node.op_type in ("LSTM", "DynamicQuantizeLSTM"):
                self._lstm(node)
            elif node.op_type in ("Conv", "ConvInteger"):
                self._convolution(node)
            elif node.op_type in ("MatMul", "MatMulInteger", "Gemm"):
                self._linear(node)
            elif node.op_type in ACTIVATIONS and found == {ENCODER, TOKENS}:
                if self.network.activation is not None:
                    raise UnsupportedError(
                        f"{self.network.name}: expected one activation in the joint network, got two: "
                        f"{self.network.activation} and {ACTIVATIONS[node.op_type]}"
                    )
                self.network.activation = ACTIVATIONS[node.op_type]
            elif node.op_type == "Relu" and found == {TOKENS}:
                self.network.relu = True

    def _take(self, name: str, weight: np.ndarray[Any, Any] | None) -> None:
        if weight is not None:
            self.network.put(name, weight)

    def _lstm(self, node: Any) -> None:
        """A layer: weights [1, 4 * units, inputs], the biases of the input and of the recurrence in one row."""
        attributes = self._attributes(node)
        names = [*node.input, *[""] * (8 - len(node.input))]
        plain = {"direction": b"forward", "input_forget": 0, "layout": 0}
        odd = [name for name, usual in plain.items() if attributes.get(name, usual) != usual]
        odd += [name for name in ("activations", "clip") if name in attributes]
        odd += ["peepholes"] if names[7] else []
        if odd:
            raise UnsupportedError(f"{self.network.name}: expected an LSTM as torch has it, got one with {odd[0]}")
        weight, recurrent = self.file.weight(names[1], 3), self.file.weight(names[2], 3)
        bias = self.file.weight(names[3], 2)
        if weight is None or recurrent is None:
            return
        if node.op_type != "LSTM":  # a quantised one has its matrices the other way round
            weight, recurrent = weight.transpose(0, 2, 1), recurrent.transpose(0, 2, 1)
        layer, self.layers = self.layers, self.layers + 1
        self._take(f"weight_ih_l{layer}", _reordered(weight[0]))
        self._take(f"weight_hh_l{layer}", _reordered(recurrent[0]))
        if bias is not None:
            ours, theirs = np.split(bias[0], 2)
            self._take(f"bias_ih_l{layer}", _reordered(ours))
            self._take(f"bias_hh_l{layer}", _reordered(theirs))

    def _convolution(self, node: Any) -> None:
        """The convolution over the last tokens [units, size / groups, context]."""
        weight = self.file.weight(node.input[1], 3)
        attributes = self._attributes(node)
        if weight is None or any(attributes.get("pads", ())) or {*attributes.get("dilations", (1,))} != {1}:
            raise UnsupportedError(f"{self.network.name}: expected a 1-D convolution without padding, got another")
        self._take("convolution", weight)
        if node.op_type == "Conv" and len(node.input) > 2:
            self._take("convolution_bias", self.file.weight(node.input[2], 1))

    def _linear(self, node: Any) -> None:
        """A linear layer: a constant matrix on the right, and the bias in the node or in an addition after it."""
        weight = self.file.weight(node.input[1], 2)
        if weight is None:
            return
        name = LINEAR[frozenset(self.depends[node.input[0]])]
        attributes = self._attributes(node)
        if node.op_type == "Gemm":
            weight = (weight if attributes.get("transB", 0) else weight.T) * np.float32(attributes.get("alpha", 1.0))
            bias = self.file.weight(node.input[2], 1) if len(node.input) > 2 else None
            bias = None if bias is None else bias * np.float32(attributes.get("beta", 1.0))
        else:
            weight = weight.T
            added = (reader for reader in self.file.after(node.output[0]) if reader.op_type == "Add")
            biases = (self.file.weight(each, 1) for reader in added for each in reader.input)
            bias = next((each for each in biases if each is not None), None)
        self._take(f"{name}_weight", weight)
        self._take(f"{name}_bias", bias)

    def _attributes(self, node: Any) -> dict[str, Any]:
        helper = require("onnx.helper", "ONNX files", "onnx")
        return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _names_read(node: Any) -> Iterator[str]:
    """The values that a node reads, those in the branches of a condition included."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _names_read(inner)
        yield from (value.name for value in attribute.g.output)


def _reordered(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows of the four gates of an LSTM, in our order."""
    parts = np.split(rows, 4)
    return np.concatenate([parts[gate] for gate in GATES])
