"""Weights in safetensors files: the same decoders as from state dicts, and clear errors for other files."""

import json
import struct
import sys

import numpy as np
import pytest

from arcbeam import FormatError, MissingDependencyError, TransducerDecoder
from tests.transducer.archives import nemo_names, torch_file
from tests.transducer.test_loaders import arrays_of, decoded, stateless

numpy_files = pytest.importorskip("safetensors.numpy", reason="the package safetensors writes and reads the files")


def contiguous(weights):
    return {name: np.ascontiguousarray(value) for name, value in weights.items()}


def write(path, weights):
    numpy_files.save_file(contiguous(weights), path)
    return path


def written(path, header, data=b""):
    """A file by its parts, which need not fit each other."""
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_icefall(tmp_path):
    path = write(tmp_path / "m.safetensors", stateless())
    assert decoded(TransducerDecoder.from_icefall(path)) == decoded(TransducerDecoder.from_icefall(stateless()))
    (tmp_path / "m.pt").write_bytes(path.read_bytes())  # its first bytes say what it is, not its name
    assert decoded(TransducerDecoder.from_icefall(str(tmp_path / "m.pt"))) == decoded(
        TransducerDecoder.from_icefall(stateless())
    )


def test_nemo(tmp_path):
    path = write(tmp_path / "m.safetensors", nemo_names(arrays_of("rnnt")))
    expected = TransducerDecoder.from_nemo(nemo_names(arrays_of("rnnt")), max_symbols=3)
    assert decoded(TransducerDecoder.from_nemo(path, max_symbols=3)) == decoded(expected)
    path = write(tmp_path / "tdt.safetensors", nemo_names(arrays_of("tdt")))
    with pytest.raises(ValueError, match=r"tdt.safetensors: 16 outputs for 13 tokens, .* give durations="):
        TransducerDecoder.from_nemo(path)
    expected = TransducerDecoder.from_nemo(nemo_names(arrays_of("tdt")), durations=[0, 1, 2])
    assert decoded(TransducerDecoder.from_nemo(path, durations=[0, 1, 2])) == decoded(expected)


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F64"])
def test_types_of_values(tmp_path, dtype):
    """bfloat16 is what numpy lacks; float32 holds each value."""
    header, data = {}, b""
    expected = {}
    for name, value in contiguous(stateless()).items():
        if dtype == "BF16":
            bits = (value.view(np.uint32) >> 16).astype("<u2")
            expected[name] = (bits.astype(np.uint32) << 16).view(np.float32)
        else:
            bits = value.astype({"F16": "<f2", "F64": "<f8"}[dtype])
            expected[name] = bits.astype(np.float32)
        offsets = [len(data), len(data) + bits.nbytes]
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": offsets}
        data += bits.tobytes()
    path = written(tmp_path / "m.safetensors", header, data)
    assert decoded(TransducerDecoder.from_icefall(path)) == decoded(TransducerDecoder.from_icefall(expected))


def test_files_that_are_none(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(FileNotFoundError):
        TransducerDecoder.from_icefall(path)
    with pytest.raises(IsADirectoryError):
        TransducerDecoder.from_nemo(tmp_path)
    whole = write(path, stateless()).read_bytes()
    for damaged in (whole[:-1], whole + b"\0", whole[:8] + b"{" * 40 + whole[48:]):
        path.write_bytes(damaged)
        for load in (TransducerDecoder.from_icefall, TransducerDecoder.from_nemo):
            with pytest.raises(
                FormatError, match=r"m.safetensors: expected a safetensors file, got one that is damaged"
            ):
                load(path)
    path.write_bytes(whole[:5])
    with pytest.raises(FormatError, match=r"m.safetensors: expected a file of torch.save"):
        TransducerDecoder.from_icefall(path)
    with pytest.raises(FormatError, match=r"m.safetensors: expected a .nemo archive"):
        TransducerDecoder.from_nemo(path)
    name = "decoder.embedding.weight"
    whole = {name: {"dtype": "U64", "shape": [2, 1], "data_offsets": [0, 16]}}
    with pytest.raises(FormatError, match=rf"m.safetensors: {name}: expected values of .*F64, F32, .* got U64"):
        TransducerDecoder.from_icefall(written(path, whole, bytes(16)))
    with pytest.raises(FormatError, match=rf"m.safetensors: expected {name}, got none"):
        TransducerDecoder.from_icefall(write(path, nemo_names(arrays_of("rnnt"))))
    empty = {name: {"dtype": "F32", "shape": [0, 1 << 40], "data_offsets": [0, 0]}}
    with pytest.raises(FormatError, match=rf"m.safetensors: {name}: .*none of them 0"):
        TransducerDecoder.from_icefall(written(path, empty))


def test_without_the_package(tmp_path, monkeypatch):
    path = write(tmp_path / "m.safetensors", stateless())
    checkpoint = tmp_path / "m.pt"
    checkpoint.write_bytes(torch_file(stateless()))
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for load in (TransducerDecoder.from_icefall, TransducerDecoder.from_nemo):
        with pytest.raises(MissingDependencyError, match=r"m.safetensors: .* the package safetensors, .*: pip install"):
            load(path)
    TransducerDecoder.from_icefall(checkpoint)  # which needs none
