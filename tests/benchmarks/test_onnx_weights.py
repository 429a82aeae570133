"""Convolutions come out of an ONNX file with their weights and attributes; broken files are refused by name."""

import struct

import numpy as np
import pytest

from benchmarks.data.onnx_weights import read_convs

RNG = np.random.default_rng(1)
DEPTHWISE, POINTWISE = RNG.normal(size=(4, 1, 3, 1)), RNG.normal(size=(2, 4, 1, 1))
BIAS = RNG.normal(size=2)


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number, value):
    """An integer, or anything else as bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name, values, kind, raw=True):
    dims = b"".join(field(1, n) for n in values.shape)
    if raw:
        stored = field(9, values.astype({1: "<f4", 10: "<f2", 7: "<i8"}[kind]).tobytes())
    else:
        stored = field(4, struct.pack(f"<{values.size}f", *values.ravel()))
    return field(5, dims + field(2, kind) + stored + field(8, name))


def node(kind, inputs, **attributes):
    told = b"".join(
        field(5, field(1, name) + (field(3, v) if isinstance(v, int) else b"".join(field(8, n) for n in v)))
        for name, v in attributes.items()
    )
    return field(1, b"".join(field(1, i) for i in inputs) + field(2, "out") + field(4, kind) + told)


def model(*parts):
    return field(1, 8) + field(7, b"".join(parts)) + varint(9 << 3 | 5) + b"\0\0\0\0"


WHOLE = (
    node("Relu", ["in"]),
    node("Conv", ["in", "a.weight"], group=4, strides=[2, 1], dilations=[2, 2], pads=[3, 0, 3, 0]),
    node("Conv", ["out", "b.weight", "b.bias"]),
    tensor("a.weight_f16", DEPTHWISE, 10),
    tensor("b.weight", POINTWISE, 1),
    tensor("b.bias", BIAS, 1, raw=False),
    tensor("shape", np.array([1, 2]), 7),
)


def test_weights_and_attributes(tmp_path):
    (tmp_path / "m.onnx").write_bytes(model(*WHOLE))
    first, second = read_convs(tmp_path / "m.onnx")
    assert first.weight.dtype == np.float32 and first.bias is None
    assert first.weight.tolist() == DEPTHWISE.astype(np.float16).astype(np.float32).tolist()
    assert (first.group, first.strides, first.dilations, first.pads) == (4, (2, 1), (2, 2), (3, 0, 3, 0))
    assert second.weight.tolist() == POINTWISE.astype(np.float32).tolist()
    assert second.bias.tolist() == BIAS.astype(np.float32).tolist()
    assert (second.group, second.strides, second.pads) == (1, (1, 1), (0, 0, 0, 0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an ONNX file"),
        (b"PK\x03\x04 a zip file", "not an ONNX file"),
        (model(*WHOLE)[:-300], "the file ends within"),
        (model(node("Conv", ["in", "gone"])), "no stored weights 'gone'"),
    ],
)
def test_broken_files(tmp_path, content, message):
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_convs(tmp_path / "m.onnx")
    assert "m.onnx" in str(error.value)


def test_the_package_onnx_reads_the_same(arcbeam_data):
    onnx = pytest.importorskip("onnx", reason="compares with the package onnx where it is there")
    path = arcbeam_data / "model" / "quartznet15x5.onnx"
    graph = onnx.load(str(path)).graph
    stored = {i.name.removesuffix("_f16"): onnx.numpy_helper.to_array(i) for i in graph.initializer}
    nodes = [n for n in graph.node if n.op_type == "Conv"]
    convs = read_convs(path)
    assert len(convs) == len(nodes)
    for conv, made in zip(convs, nodes, strict=True):
        assert np.array_equal(conv.weight, stored[made.input[1]].astype(np.float32))
        assert (conv.bias is None) == (len(made.input) == 2)
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in made.attribute}
        assert (conv.group, list(conv.pads)) == (attributes["group"], attributes["pads"])
        assert (list(conv.strides), list(conv.dilations)) == (attributes["strides"], attributes["dilations"])
