"""Writes what NeMo and icefall write, without them and without torch: checkpoints and ``.nemo`` archives."""

import io
import pickle
import sys
import tarfile
import types
import zipfile
from collections import OrderedDict
from unittest import mock

import numpy as np

KINDS = {
    np.dtype(np.float32): "FloatStorage",
    np.dtype(np.float16): "HalfStorage",
    np.dtype(np.float64): "DoubleStorage",
    np.dtype(np.int64): "LongStorage",
    np.dtype(np.int32): "IntStorage",
}


class BFloat16:
    """float32 values to be stored as bfloat16."""

    def __init__(self, values):
        self.values = np.asarray(values, np.float32)


class Parameter:
    """A tensor stored as torch stores a module's parameter outside a state dict."""

    def __init__(self, values):
        self.values = values


class _Pickler(pickle.Pickler):
    def __init__(self, file, torch):
        super().__init__(file, protocol=2)
        self.torch = torch
        self.storages = []

    def reducer_override(self, item):
        if isinstance(item, Parameter):
            return self.torch["torch._utils"]._rebuild_parameter, (item.values, True, OrderedDict())
        bits = isinstance(item, BFloat16)
        if not bits and not isinstance(item, np.ndarray):
            return NotImplemented
        # The storage of an array is all that it is a view of, as in torch.
        array = (item.values.view(np.uint32) >> 16).astype(np.uint16) if bits else item
        whole = array.base if isinstance(array.base, np.ndarray) else array
        offset = (array.ctypes.data - whole.ctypes.data) // array.itemsize
        strides = tuple(step // array.itemsize for step in array.strides)
        storage = _Storage("BFloat16Storage" if bits else KINDS[array.dtype], whole)
        arguments = (storage, offset, array.shape, strides, False, OrderedDict())
        return self.torch["torch._utils"]._rebuild_tensor_v2, arguments

    def persistent_id(self, item):
        if not isinstance(item, _Storage):
            return None
        self.storages.append(item.values.tobytes())
        kind = getattr(self.torch["torch"], item.kind)
        return ("storage", kind, str(len(self.storages) - 1), "cpu", item.values.size)


class _Storage:
    def __init__(self, kind, values):
        self.kind, self.values = kind, values


def _stand_ins():
    """Modules named as torch's, so that the pickle names torch's functions and types."""
    modules = {name: types.ModuleType(name) for name in ("torch", "torch._utils")}
    for name in [*KINDS.values(), "BFloat16Storage"]:
        setattr(modules["torch"], name, type(name, (), {"__module__": "torch"}))
    for name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
        function = types.FunctionType((lambda *_: None).__code__, {}, name)
        function.__module__, function.__qualname__ = "torch._utils", name
        setattr(modules["torch._utils"], name, function)
    return modules


def torch_file(value, folder="archive"):
    """The bytes that ``torch.save`` would write."""
    data, file = io.BytesIO(), io.BytesIO()
    modules = _stand_ins()
    with mock.patch.dict(sys.modules, modules):
        pickler = _Pickler(data, modules)
        pickler.dump(value)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{folder}/data.pkl", data.getvalue())
        archive.writestr(f"{folder}/byteorder", "little")
        for i, storage in enumerate(pickler.storages):
            archive.writestr(f"{folder}/data/{i}", storage)
        archive.writestr(f"{folder}/version", "3\n")
    return file.getvalue()


def nemo_file(path, config, weights, compression=""):
    """Writes a ``.nemo`` archive: config is YAML, weights a state dict or bytes."""
    with tarfile.open(path, f"w:{compression}") as archive:
        for name, content in (("model_config.yaml", config), ("model_weights.ckpt", weights)):
            if content is None:
                continue
            content = content.encode() if isinstance(content, str) else content
            content = content if isinstance(content, bytes) else torch_file(content, "model_weights")
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def nemo_names(arrays, output="joint.joint_net.2"):
    """Weights of ``random_arrays`` under NeMo's names; a stateless network's tables must be one for each place."""
    names = {
        "encoder_": "joint.enc.",
        "prediction_": "joint.pred.",
        "output_": f"{output}.",
        "weight_": "decoder.prediction.dec_rnn.lstm.weight_",
        "bias_": "decoder.prediction.dec_rnn.lstm.bias_",
    }
    weights = OrderedDict()
    for name, value in arrays.items():
        for ours, theirs in names.items():
            if name.startswith(ours):
                weights[theirs + name.removeprefix(ours)] = value
    if arrays["embedding"].ndim == 2:
        weights["decoder.prediction.embed.weight"] = arrays["embedding"]
    return weights


def icefall_names(arrays):
    """Weights of ``random_arrays`` under icefall's names."""
    names = {"encoder_": "encoder_proj.", "prediction_": "decoder_proj.", "output_": "output_linear."}
    weights = {
        f"joiner.{theirs}{name.removeprefix(ours)}": value
        for name, value in arrays.items()
        for ours, theirs in names.items()
        if name.startswith(ours)
    }
    weights["decoder.embedding.weight"] = arrays["embedding"]
    if "convolution" in arrays:
        weights["decoder.conv.weight"] = arrays["convolution"]
    return weights
