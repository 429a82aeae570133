"""arcbeam: WFST beam search for speech recognition, the same bytes on every engine.

Public names are looked up on first use, so that ``import arcbeam`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcbeam import baseline as baseline
    from arcbeam.ctc.decoder import CtcDecoder, DecoderMemory, DecodeStats
    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.ctc.options import DecoderOptions
    from arcbeam.errors import (
        ArcbeamError,
        CapacityError,
        CudaError,
        CudaOutOfMemoryError,
        FormatError,
        GraphError,
        MissingDependencyError,
        UnsupportedError,
    )
    from arcbeam.graph.graph import Graph, GraphInfo
    from arcbeam.graph.symbols import SymbolTable, TokenTable
    from arcbeam.lm.kenlm import KenLM
    from arcbeam.lm.language_model import LanguageModel, LanguageModelInfo, WordScore
    from arcbeam.transducer.confidence import ConfidenceMethod
    from arcbeam.transducer.decoder import TransducerDecoder
    from arcbeam.transducer.device import TransducerMemory
    from arcbeam.transducer.hypothesis import TransducerHypothesis, TransducerState
    from arcbeam.transducer.network import Joint, LstmLayer, LstmPrediction, StatelessPrediction
    from arcbeam.transducer.options import TransducerOptions
    from arcbeam.words import Word

_HOME = {
    "CtcDecoder": "ctc.decoder",
    "DecodeStats": "ctc.decoder",
    "DecoderMemory": "ctc.decoder",
    "DecoderOptions": "ctc.options",
    "Graph": "graph.graph",
    "GraphInfo": "graph.graph",
    "Hypothesis": "ctc.hypothesis",
    "Word": "words",
    "KenLM": "lm.kenlm",
    "LanguageModel": "lm.language_model",
    "LanguageModelInfo": "lm.language_model",
    "WordScore": "lm.language_model",
    "SymbolTable": "graph.symbols",
    "TokenTable": "graph.symbols",
    "ConfidenceMethod": "transducer.confidence",
    "Joint": "transducer.network",
    "LstmLayer": "transducer.network",
    "LstmPrediction": "transducer.network",
    "StatelessPrediction": "transducer.network",
    "TransducerDecoder": "transducer.decoder",
    "TransducerHypothesis": "transducer.hypothesis",
    "TransducerMemory": "transducer.device",
    "TransducerOptions": "transducer.options",
    "TransducerState": "transducer.hypothesis",
    "ArcbeamError": "errors",
    "CapacityError": "errors",
    "CudaError": "errors",
    "CudaOutOfMemoryError": "errors",
    "FormatError": "errors",
    "GraphError": "errors",
    "MissingDependencyError": "errors",
    "UnsupportedError": "errors",
}

_MODULES = ("baseline",)

__all__ = [
    "ArcbeamError",
    "CapacityError",
    "ConfidenceMethod",
    "CtcDecoder",
    "CudaError",
    "CudaOutOfMemoryError",
    "DecodeStats",
    "DecoderMemory",
    "DecoderOptions",
    "FormatError",
    "Graph",
    "GraphError",
    "GraphInfo",
    "Hypothesis",
    "Joint",
    "KenLM",
    "LanguageModel",
    "LanguageModelInfo",
    "LstmLayer",
    "LstmPrediction",
    "MissingDependencyError",
    "StatelessPrediction",
    "SymbolTable",
    "TokenTable",
    "TransducerDecoder",
    "TransducerHypothesis",
    "TransducerMemory",
    "TransducerOptions",
    "TransducerState",
    "UnsupportedError",
    "Word",
    "WordScore",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("arcbeam")
    if name in _HOME:
        value = getattr(import_module(f"arcbeam.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"arcbeam.{name}")
    raise AttributeError(f"module 'arcbeam' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
