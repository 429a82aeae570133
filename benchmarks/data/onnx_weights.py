"""The convolutions of an ONNX file, in their order, without the package onnx.

Reading the file's protocol buffers takes a page; a machine that only runs the torch module then needs neither onnx nor
onnxruntime. Understood are `Conv` nodes and their weights, float32 or float16, raw or as numbers; anything else in the
graph is skipped, so this reads weights for a module that knows the rest of the network.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

# Field numbers of ONNX's messages, and its numbers for types.
MODEL_GRAPH, GRAPH_NODE, GRAPH_INITIALIZER = 7, 1, 5
NODE_INPUT, NODE_TYPE, NODE_ATTRIBUTE = 1, 4, 5
ATTRIBUTE_NAME, ATTRIBUTE_INT, ATTRIBUTE_INTS = 1, 3, 8
TENSOR_DIMS, TENSOR_TYPE, TENSOR_FLOATS, TENSOR_NAME, TENSOR_RAW = 1, 2, 4, 8, 9
FLOAT, FLOAT16 = 1, 10
STORED_AS_F16 = "_f16"  # the name of a tensor that a Cast node turns into the one without this ending


@dataclass(frozen=True)
class Conv:
    """One convolution: weight [out, in / group, kernel...] and bias [out] in float32, and its attributes."""

    weight: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32] | None
    group: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("the file ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(number, value) of each field: an integer, or the bytes of a longer value."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"field {key >> 3} has the unknown kind {kind}")
        if at + size > len(data):
            raise ValueError(f"the file ends within field {key >> 3}")
        yield key >> 3, data[at : at + size]
        at += size


def _numbers(values: list[int | memoryview]) -> tuple[int, ...]:
    """Repeated integers, one a field or packed into one."""
    found: list[int] = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            found.append(number)
    return tuple(n - (1 << 64) if n >> 63 else n for n in found)


def _message(data: int | memoryview) -> dict[int, list[int | memoryview]]:
    if isinstance(data, int):
        raise ValueError("expected a message, got a number")
    found: dict[int, list[int | memoryview]] = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def _text(value: int | memoryview) -> str:
    return bytes(value).decode() if not isinstance(value, int) else str(value)


def _tensor(message: dict[int, list[int | memoryview]]) -> npt.NDArray[np.float32] | None:
    """Its values as float32; None where it is of another type."""
    (kind,) = _numbers(message.get(TENSOR_TYPE, [0]))
    if kind not in (FLOAT, FLOAT16):
        return None
    shape = _numbers(message.get(TENSOR_DIMS, []))
    if TENSOR_RAW in message:
        values = np.frombuffer(message[TENSOR_RAW][0], "<f4" if kind == FLOAT else "<f2")  # type: ignore[call-overload]
    elif kind == FLOAT:
        packed = b"".join(bytes(v) for v in message.get(TENSOR_FLOATS, []))  # type: ignore[arg-type]
        values = np.array(struct.unpack(f"<{len(packed) // 4}f", packed))
    else:
        raise ValueError("float16 values that are not raw")
    return values.reshape(shape).astype(np.float32)


def _conv(node: dict[int, list[int | memoryview]], tensors: dict[str, npt.NDArray[np.float32]]) -> Conv:
    inputs = [_text(v) for v in node[NODE_INPUT]][1:]
    found = []
    for name in inputs:
        value = tensors.get(name, tensors.get(name + STORED_AS_F16))
        if value is None:
            raise ValueError(f"a convolution has no stored weights {name!r}")
        found.append(value)
    attributes: dict[str, tuple[int, ...]] = {}
    for raw in node.get(NODE_ATTRIBUTE, []):
        attribute = _message(raw)
        numbers = _numbers(attribute.get(ATTRIBUTE_INTS, attribute.get(ATTRIBUTE_INT, [])))
        attributes[_text(attribute[ATTRIBUTE_NAME][0])] = numbers
    spatial = found[0].ndim - 2
    return Conv(
        found[0],
        found[1] if len(found) > 1 else None,
        attributes.get("group", (1,))[0],
        attributes.get("strides", (1,) * spatial),
        attributes.get("dilations", (1,) * spatial),
        attributes.get("pads", (0,) * (2 * spatial)),
    )


def read_convs(path: str | Path) -> list[Conv]:
    """Every convolution of the graph, in its order. Raises ValueError where the file cannot be read so."""
    try:
        model = _message(memoryview(Path(path).read_bytes()))
        graph = _message(model[MODEL_GRAPH][0])
        tensors = {}
        for raw in graph.get(GRAPH_INITIALIZER, []):
            message = _message(raw)
            value = _tensor(message)
            if value is not None:
                tensors[_text(message[TENSOR_NAME][0])] = value
        nodes = (_message(raw) for raw in graph.get(GRAPH_NODE, []))
        return [_conv(node, tensors) for node in nodes if _text(node.get(NODE_TYPE, [0])[0]) == "Conv"]
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not an ONNX file that can be read here: {error}") from None
