"""arcbeam: WFST beam search for speech recognition, the same bytes on every engine.

Public names are looked up on first use, so that ``import arcbeam`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcbeam import adapters as adapters
    from arcbeam import baseline as baseline
    from arcbeam import transducer as transducer
    from arcbeam import words as words
    from arcbeam.adapters.hugging_face import TransformersDecoder, from_transformers
    from arcbeam.adapters.nemo import from_nemo
    from arcbeam.adapters.onnx import from_onnx
    from arcbeam.adapters.onnx_model import OnnxCtcModel, OnnxTransducerModel
    from arcbeam.batching.batcher import Batcher
    from arcbeam.batching.sentences import ChunkSentences
    from arcbeam.batching.stats import BatcherStats
    from arcbeam.core.confidence import ConfidenceMethod
    from arcbeam.core.errors import (
        ArcbeamError,
        BatcherClosedError,
        BatcherFullError,
        CapacityError,
        CudaError,
        CudaOutOfMemoryError,
        FormatError,
        GraphError,
        InputError,
        InputWarning,
        MissingDependencyError,
        UnsupportedError,
    )
    from arcbeam.ctc.align.alignment import Alignment
    from arcbeam.ctc.boost.boost import Boost, Boosted
    from arcbeam.ctc.confidence.calibration import ConfidenceCalibration, calibrate_confidence
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.ctc.hypothesis import Hypotheses, Hypothesis
    from arcbeam.ctc.lattice.lattice import Lattice
    from arcbeam.ctc.options import DecoderOptions
    from arcbeam.ctc.stats import DecoderMemory, DecodeStats
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.ctc.streams.stream import Stream
    from arcbeam.files.log_probs import read_log_probs
    from arcbeam.front.ctc_decoder import ctc_decoder
    from arcbeam.graph.graph import Graph, GraphInfo
    from arcbeam.graph.symbols import SymbolTable
    from arcbeam.graph.token_table import TokenTable
    from arcbeam.lattices.archives import read_lattices, write_lattices
    from arcbeam.lattices.kaldi_lattice import KaldiLattice
    from arcbeam.lm.kenlm import KenLM
    from arcbeam.lm.language_model import LanguageModel, LanguageModelInfo
    from arcbeam.report.page import write_report
    from arcbeam.streams.endpoints import Endpoint, EndpointRule
    from arcbeam.streams.group import StreamGroup
    from arcbeam.streams.partials import Partials
    from arcbeam.transcribe.live import LiveEvent, LiveRecording
    from arcbeam.transcribe.segment import Segment
    from arcbeam.transcribe.subtitles import SubtitleRules
    from arcbeam.transcribe.transcriber import Transcriber
    from arcbeam.transcribe.transcript import Transcript
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.decoder import TransducerDecoder
    from arcbeam.transducer.device import TransducerMemory
    from arcbeam.transducer.hypothesis import TransducerHypothesis, TransducerState
    from arcbeam.transducer.options import TransducerOptions
    from arcbeam.transducer.streams.partial import TransducerPartial
    from arcbeam.transducer.streams.stream import TransducerStream

_HOME = {
    "Alignment": "ctc.align.alignment",
    "Batcher": "batching.batcher",
    "BatcherStats": "batching.stats",
    "Boost": "ctc.boost.boost",
    "Boosted": "ctc.boost.boost",
    "BoostingTree": "transducer.boosting_tree",
    "ConfidenceCalibration": "ctc.confidence.calibration",
    "ConfidenceMethod": "core.confidence",
    "ChunkSentences": "batching.sentences",
    "CtcDecoder": "ctc.decoder",
    "DecodeStats": "ctc.stats",
    "DecoderMemory": "ctc.stats",
    "DecoderOptions": "ctc.options",
    "Endpoint": "streams.endpoints",
    "EndpointRule": "streams.endpoints",
    "Graph": "graph.graph",
    "GraphInfo": "graph.graph",
    "Hypotheses": "ctc.hypothesis",
    "Hypothesis": "ctc.hypothesis",
    "KaldiLattice": "lattices.kaldi_lattice",
    "KenLM": "lm.kenlm",
    "Lattice": "ctc.lattice.lattice",
    "LanguageModel": "lm.language_model",
    "LanguageModelInfo": "lm.language_model",
    "Partial": "ctc.streams.partial",
    "Partials": "streams.partials",
    "LiveEvent": "transcribe.live",
    "LiveRecording": "transcribe.live",
    "Segment": "transcribe.segment",
    "Stream": "ctc.streams.stream",
    "StreamGroup": "streams.group",
    "SubtitleRules": "transcribe.subtitles",
    "SymbolTable": "graph.symbols",
    "TokenTable": "graph.token_table",
    "Transcriber": "transcribe.transcriber",
    "Transcript": "transcribe.transcript",
    "TransducerDecoder": "transducer.decoder",
    "TransducerHypothesis": "transducer.hypothesis",
    "TransducerMemory": "transducer.device",
    "TransducerOptions": "transducer.options",
    "TransducerPartial": "transducer.streams.partial",
    "TransducerState": "transducer.hypothesis",
    "TransducerStream": "transducer.streams.stream",
    "ArcbeamError": "core.errors",
    "BatcherClosedError": "core.errors",
    "BatcherFullError": "core.errors",
    "CapacityError": "core.errors",
    "CudaError": "core.errors",
    "CudaOutOfMemoryError": "core.errors",
    "FormatError": "core.errors",
    "GraphError": "core.errors",
    "InputError": "core.errors",
    "InputWarning": "core.errors",
    "MissingDependencyError": "core.errors",
    "UnsupportedError": "core.errors",
    "calibrate_confidence": "ctc.confidence.calibration",
    "ctc_decoder": "front.ctc_decoder",
    "TransformersDecoder": "adapters.hugging_face",
    "from_nemo": "adapters.nemo",
    "from_transformers": "adapters.hugging_face",
    "OnnxCtcModel": "adapters.onnx_model",
    "OnnxTransducerModel": "adapters.onnx_model",
    "from_onnx": "adapters.onnx",
    "read_lattices": "lattices.archives",
    "read_log_probs": "files.log_probs",
    "write_lattices": "lattices.archives",
    "write_report": "report.page",
}

_MODULES = ("adapters", "baseline", "transducer", "words")

# Names that are too general for this module, and the modules that have them.
_ELSEWHERE = {
    "Joint": "arcbeam.transducer",
    "LstmLayer": "arcbeam.transducer",
    "LstmPrediction": "arcbeam.transducer",
    "StatelessPrediction": "arcbeam.transducer",
    "Word": "arcbeam.words",
    "WordScore": "arcbeam.lm.language_model",
}

__all__ = [
    "Alignment",
    "ArcbeamError",
    "Batcher",
    "BatcherClosedError",
    "BatcherFullError",
    "BatcherStats",
    "Boost",
    "Boosted",
    "BoostingTree",
    "CapacityError",
    "ChunkSentences",
    "ConfidenceCalibration",
    "ConfidenceMethod",
    "CtcDecoder",
    "CudaError",
    "CudaOutOfMemoryError",
    "DecodeStats",
    "DecoderMemory",
    "DecoderOptions",
    "Endpoint",
    "EndpointRule",
    "FormatError",
    "Graph",
    "GraphError",
    "GraphInfo",
    "Hypotheses",
    "Hypothesis",
    "InputError",
    "InputWarning",
    "KaldiLattice",
    "KenLM",
    "LanguageModel",
    "LanguageModelInfo",
    "Lattice",
    "LiveEvent",
    "LiveRecording",
    "MissingDependencyError",
    "OnnxCtcModel",
    "OnnxTransducerModel",
    "Partial",
    "Partials",
    "Segment",
    "Stream",
    "StreamGroup",
    "SubtitleRules",
    "SymbolTable",
    "TokenTable",
    "Transcriber",
    "Transcript",
    "TransducerDecoder",
    "TransducerHypothesis",
    "TransducerMemory",
    "TransducerOptions",
    "TransducerPartial",
    "TransducerState",
    "TransducerStream",
    "TransformersDecoder",
    "UnsupportedError",
    "calibrate_confidence",
    "ctc_decoder",
    "from_nemo",
    "from_onnx",
    "from_transformers",
    "read_lattices",
    "read_log_probs",
    "write_lattices",
    "write_report",
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
    where = f": from {_ELSEWHERE[name]} import {name}" if name in _ELSEWHERE else ""
    raise AttributeError(f"module 'arcbeam' has no attribute {name!r}{where}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, "__version__"])
