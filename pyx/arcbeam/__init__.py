"""arcbeam: WFST beam search for speech recognition, the same bytes on every engine.

Public names are looked up on first use, so that ``import arcbeam`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcbeam import baseline as baseline
    from arcbeam.decoder import CtcDecoder, DecoderMemory, DecodeStats
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
    from arcbeam.graph import Graph, GraphInfo
    from arcbeam.hypothesis import Hypothesis, Word
    from arcbeam.language_model import KenLM
    from arcbeam.lm_automaton import LanguageModel, LanguageModelInfo, WordScore
    from arcbeam.options import DecoderOptions
    from arcbeam.symbols import SymbolTable, TokenTable
    from arcbeam.transducer import TransducerDecoder
    from arcbeam.transducer_confidence import ConfidenceMethod
    from arcbeam.transducer_device import TransducerMemory
    from arcbeam.transducer_hypothesis import TransducerHypothesis, TransducerState
    from arcbeam.transducer_network import Joint, LstmLayer, LstmPrediction, StatelessPrediction
    from arcbeam.transducer_options import TransducerOptions

_HOME = {
    "CtcDecoder": "decoder",
    "DecodeStats": "decoder",
    "DecoderMemory": "decoder",
    "DecoderOptions": "options",
    "Graph": "graph",
    "GraphInfo": "graph",
    "Hypothesis": "hypothesis",
    "Word": "hypothesis",
    "KenLM": "language_model",
    "LanguageModel": "lm_automaton",
    "LanguageModelInfo": "lm_automaton",
    "WordScore": "lm_automaton",
    "SymbolTable": "symbols",
    "TokenTable": "symbols",
    "ConfidenceMethod": "transducer_confidence",
    "Joint": "transducer_network",
    "LstmLayer": "transducer_network",
    "LstmPrediction": "transducer_network",
    "StatelessPrediction": "transducer_network",
    "TransducerDecoder": "transducer",
    "TransducerHypothesis": "transducer_hypothesis",
    "TransducerMemory": "transducer_device",
    "TransducerOptions": "transducer_options",
    "TransducerState": "transducer_hypothesis",
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
