"""pyctcdecode 0.5.0: prefix beam search over words of any spelling, with a KenLM of words, on the CPU.

``docs/guide/from-pyctcdecode.md`` lists the differences. May import: baseline, core, lm.
"""

from arcbeam.compat.pyctcdecode.alphabet import Alphabet
from arcbeam.compat.pyctcdecode.beams import OutputBeam, OutputBeamMPSafe
from arcbeam.compat.pyctcdecode.build import build_ctcdecoder
from arcbeam.compat.pyctcdecode.decoder import BeamSearchDecoderCTC
from arcbeam.compat.pyctcdecode.language_model import LanguageModel, LMState

__all__ = [
    "Alphabet",
    "BeamSearchDecoderCTC",
    "LMState",
    "LanguageModel",
    "OutputBeam",
    "OutputBeamMPSafe",
    "build_ctcdecoder",
]
