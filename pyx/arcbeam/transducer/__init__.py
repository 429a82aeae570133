"""Decoding of RNN-T and TDT models: `TransducerDecoder`, its networks, options, results and states.

May import: arrays, core, files, gpu, lm, streams, transducer/beam, transducer/phrases,
transducer/streams.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcbeam.core.confidence import ConfidenceMethod as ConfidenceMethod
    from arcbeam.transducer.network import Joint as Joint
    from arcbeam.transducer.network import LstmLayer as LstmLayer
    from arcbeam.transducer.network import LstmPrediction as LstmPrediction
    from arcbeam.transducer.network import StatelessPrediction as StatelessPrediction

_HOME = {
    "ConfidenceMethod": "arcbeam.core.confidence",
    "Joint": "arcbeam.transducer.network",
    "LstmLayer": "arcbeam.transducer.network",
    "LstmPrediction": "arcbeam.transducer.network",
    "StatelessPrediction": "arcbeam.transducer.network",
}

__all__ = ["ConfidenceMethod", "Joint", "LstmLayer", "LstmPrediction", "StatelessPrediction"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'arcbeam.transducer' has no attribute {name!r}")
