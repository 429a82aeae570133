"""flashlight-text's decoders, trie, language models and dictionary, on the search of the baseline.

``docs/guide/from-flashlight.md`` lists the differences. May import: baseline, core, files, lm.
"""

from arcbeam.compat.flashlight.decoder import DecodeResult, LexiconDecoder, LexiconFreeDecoder
from arcbeam.compat.flashlight.dictionary import Dictionary, create_word_dict, load_words
from arcbeam.compat.flashlight.language_model import KenLM, LMState, ZeroLM
from arcbeam.compat.flashlight.options import (
    CriterionType,
    LexiconDecoderOptions,
    LexiconFreeDecoderOptions,
    SmearingMode,
)
from arcbeam.compat.flashlight.trie import Trie

__all__ = [
    "CriterionType",
    "DecodeResult",
    "Dictionary",
    "KenLM",
    "LMState",
    "LexiconDecoder",
    "LexiconDecoderOptions",
    "LexiconFreeDecoder",
    "LexiconFreeDecoderOptions",
    "SmearingMode",
    "Trie",
    "ZeroLM",
    "create_word_dict",
    "load_words",
]
