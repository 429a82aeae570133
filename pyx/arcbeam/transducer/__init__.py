"""Greedy decoding for RNN-T and TDT models: `TransducerDecoder`, its networks, options, results and states.

May import: arrays, files, gpu.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcbeam.transducer.confidence import ConfidenceMethod as ConfidenceMethod
    from arcbeam.transducer.network import Joint as Joint
    from arcbeam.transducer.network import LstmLayer as LstmLayer
    from arcbeam.transducer.network import LstmPrediction as LstmPrediction
    from arcbeam.transducer.network import StatelessPrediction as StatelessPrediction

_HOME = {
    "ConfidenceMethod": "confidence",
    "Joint": "network",
    "LstmLayer": "network",
    "LstmPrediction": "network",
    "StatelessPrediction": "network",
}

__all__ = ["ConfidenceMethod", "Joint", "LstmLayer", "LstmPrediction", "StatelessPrediction"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"arcbeam.transducer.{_HOME[name]}"), name)
    raise AttributeError(f"module 'arcbeam.transducer' has no attribute {name!r}")
