"""NeMo's label-looping, loaded without the rest of NeMo, on networks made of plain arrays.

Only ``nemo/collections/asr/parts`` is run; what it imports from elsewhere is stood in for. The environment variable
``ARCBEAM_NEMO`` may name a folder that holds ``nemo``, such as an unpacked wheel of nemo_toolkit 3.0.0.
"""

import importlib
import importlib.util
import os
import sys
import types
from enum import StrEnum
from pathlib import Path
from unittest import mock

import pytest

STAND_INS = (
    "nemo.core.utils.cuda_python_utils",
    "nemo.core.utils.optional_libs",
    "nemo.utils",
    "nemo.utils.enum",
    "nemo.collections.asr.parts.context_biasing.biasing_multi_model",
    "nemo.collections.asr.parts.submodules.ngram_lm",
)
PACKAGES = (
    "nemo",
    "nemo.core",
    "nemo.core.utils",
    "nemo.collections",
    "nemo.collections.asr",
    "nemo.collections.asr.parts",
    "nemo.collections.asr.parts.submodules",
    "nemo.collections.asr.parts.utils",
    "nemo.collections.common",
    "nemo.collections.common.parts",
)


def folder():
    """The folder ``nemo``, found without importing it."""
    named = os.environ.get("ARCBEAM_NEMO")
    if named:
        return Path(named) / "nemo"
    spec = importlib.util.find_spec("nemo")
    return Path(next(iter(spec.submodule_search_locations))) if spec else None


def load():
    """The module ``nemo.collections.asr.parts.submodules.transducer_decoding``; skips the test where it cannot be."""
    for package in ("torch", "omegaconf"):
        pytest.importorskip(package, reason="NeMo's label-looping needs it")
    root = folder()
    if root is None or not (root / "collections" / "asr" / "parts").is_dir():
        pytest.skip("NeMo is not there: install nemo_toolkit, or let ARCBEAM_NEMO name the folder of its sources")
    modules = {}
    for name in PACKAGES:
        modules[name] = types.ModuleType(name)
        modules[name].__path__ = [str(root.joinpath(*name.split(".")[1:]))]
    modules |= {name: mock.MagicMock() for name in STAND_INS}
    modules["nemo.core.utils.optional_libs"].CUDA_PYTHON_AVAILABLE = False
    modules["nemo.utils.enum"].PrettyStrEnum = StrEnum
    graphs = types.ModuleType("nemo.collections.common.parts.optional_cuda_graphs")
    graphs.WithOptionalCudaGraphs = type("WithOptionalCudaGraphs", (), {})
    modules[graphs.__name__] = graphs
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "nemo"}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    try:
        return importlib.import_module("nemo.collections.asr.parts.submodules.transducer_decoding")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "nemo"]:
            del sys.modules[name]
        sys.modules.update(before)


class Decoder:
    """The prediction network as NeMo's loop calls it."""

    def __init__(self, arrays):
        import torch

        self.torch = torch
        self.embedding = torch.from_numpy(arrays["embedding"])
        self.layers = sum(name.startswith("weight_hh") for name in arrays)
        self.units = arrays["weight_hh_l0"].shape[1]
        self.lstm = torch.nn.LSTM(arrays["embedding"].shape[1], self.units, self.layers)
        self.lstm.load_state_dict({name: torch.from_numpy(arrays[name]) for name in self.lstm.state_dict()})

    def initialize_state(self, y):
        # Two tensors: the loop writes into them in place.
        return tuple(self.torch.zeros(self.layers, len(y), self.units) for _ in range(2))

    def predict(self, y, state, add_sos=False, batch_size=None):
        out, state = self.lstm(self.embedding[y].transpose(0, 1), state)
        return out.transpose(0, 1), state

    def batch_replace_states_mask(self, src_states, dst_states, mask):
        for source, target in zip(src_states, dst_states, strict=True):
            self.torch.where(mask[None, :, None], source, target, out=target)


class Joint:
    """The joint network as NeMo's loop calls it."""

    def __init__(self, arrays):
        import torch

        self.torch = torch
        self.weights = {name: torch.from_numpy(value) for name, value in arrays.items()}
        self.num_classes_with_blank = len(arrays["output_weight"])

    def _linear(self, name, x):
        return self.torch.nn.functional.linear(x, self.weights[f"{name}_weight"], self.weights[f"{name}_bias"])

    def project_encoder(self, x):
        return self._linear("encoder", x)

    def project_prednet(self, x):
        return self._linear("prediction", x)

    def joint_after_projection(self, encoded, predicted):
        return self._linear("output", self.torch.tanh(encoded[:, :, None] + predicted[:, None]))
