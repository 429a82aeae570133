"""The baseline: beam search over a lexicon or over labels with a KenLM, as Flashlight does it, on the CPU.

May import: arrays, core, graph, lm.
"""

from arcbeam.baseline.decoder import LexiconDecoder, LexiconFreeDecoder, with_separator
from arcbeam.baseline.options import LexiconFreeOptions, LexiconOptions
from arcbeam.baseline.results import Hypothesis, Result
from arcbeam.lm.kenlm import KenLM

__all__ = [
    "Hypothesis",
    "KenLM",
    "LexiconDecoder",
    "LexiconFreeDecoder",
    "LexiconFreeOptions",
    "LexiconOptions",
    "Result",
    "with_separator",
]
