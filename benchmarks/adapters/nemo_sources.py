"""Loads parts of NeMo from its wheel without what NeMo as a whole needs (lightning, hydra, ...).

The packages on the way to a part become bare ones, whose ``__init__`` never runs; the few names that the parts want
from ``nemo.core`` and ``nemo.utils`` are stood in for. What decodes is NeMo's own code, untouched. It needs torch,
triton, omegaconf, PyYAML, tqdm, packaging and, for CUDA graphs with loops, cuda-bindings.
"""

import importlib
import importlib.util
import logging
import sys
import types
from pathlib import Path
from typing import Any

BARE = (
    "nemo", "nemo.collections", "nemo.collections.asr", "nemo.collections.asr.parts",
    "nemo.collections.asr.parts.submodules", "nemo.collections.asr.parts.utils",
    "nemo.collections.asr.parts.context_biasing", "nemo.collections.common", "nemo.collections.common.parts",
    "nemo.core", "nemo.core.utils", "nemo.utils",
)  # fmt: skip


def find() -> Path:
    """The folder ``nemo`` of the wheel. Raises ImportError where it is not installed."""
    if "nemo" in sys.modules:
        return Path(sys.modules["nemo"].__path__[0])
    spec = importlib.util.find_spec("nemo")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("NeMo is not installed: its wheel nemo-toolkit==3.0.0 alone will do")
    folder = Path(next(iter(spec.submodule_search_locations)))
    if not (folder / "collections" / "asr").is_dir():
        raise ImportError(f"{folder} is not NeMo's")
    return folder


def load(module: str) -> Any:
    """A module of NeMo, as ``"nemo.collections.asr.parts.submodules.ctc_batched_beam_decoding"``."""
    if "nemo" not in sys.modules:
        _prepare(find())
    return importlib.import_module(module)


def _prepare(folder: Path) -> None:
    import torch

    class Stub(torch.nn.Module):
        """Of ModelPT: what is made from a configuration alone."""

        def __init__(self, cfg: Any = None, trainer: Any = None) -> None:
            super().__init__()
            self.cfg = cfg

    quiet = logging.getLogger("nemo")
    quiet.setLevel(logging.ERROR)
    for name in ("LogMode", "logging_mode"):
        setattr(quiet, name, types.SimpleNamespace(ONCE=0))
    names: dict[str, dict[str, Any]] = {
        "nemo.core": {"ModelPT": Stub, "PretrainedModelInfo": type("PretrainedModelInfo", (), {})},
        "nemo.utils": {"logging": quiet, "logging_mode": types.SimpleNamespace(LogMode=types.SimpleNamespace(ONCE=0))},
        "nemo.collections.common.parts": {"NEG_INF": -10000.0},
        "nemo.collections.asr.parts.context_biasing": {
            "BoostingTreeModelConfig": type("BoostingTreeModelConfig", (), {}),
            "GPUBoostingTreeModel": type("GPUBoostingTreeModel", (), {}),
        },
        "nemo.core.classes": {"Typing": type("Typing", (), {}), "typecheck": lambda: lambda function: function},
        "nemo.collections.common.tokenizers": {
            "AggregateTokenizer": type("AggregateTokenizer", (), {}),
            "TokenizerSpec": type("TokenizerSpec", (), {}),
        },
        "nemo.core.utils.numba_utils": {
            "__NUMBA_MINIMUM_VERSION__": "0",
            "numba_cpu_is_supported": lambda version: False,
            "numba_cuda_is_supported": lambda version: False,
        },
    }
    for name in dict.fromkeys([*BARE, *names]):
        module = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        vars(module).update(names.get(name, {}))
        _put(name, module)
    try:
        import lightning.pytorch  # noqa: F401
    except ImportError:
        _put("lightning", types.ModuleType("lightning"))
        pytorch = types.ModuleType("lightning.pytorch")
        pytorch.Trainer = type("Trainer", (), {})  # type: ignore[attr-defined]
        _put("lightning.pytorch", pytorch)


def _put(name: str, module: types.ModuleType) -> None:
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
