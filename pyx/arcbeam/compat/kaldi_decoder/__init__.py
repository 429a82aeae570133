"""kaldi-decoder's classes, on the search of `CtcDecoder`; their lattices are those of kaldifst.

``docs/guide/from-riva-and-kaldi.md`` lists the differences. May import: compat, core, ctc, graph.
"""

from arcbeam.compat.kaldi_decoder.decodable import DecodableCtc, DecodableInterface
from arcbeam.compat.kaldi_decoder.faster import FasterDecoder, SimpleDecoder
from arcbeam.compat.kaldi_decoder.lattice_simple import LatticeSimpleDecoder
from arcbeam.compat.kaldi_decoder.options import FasterDecoderOptions, LatticeSimpleDecoderConfig

__all__ = [
    "DecodableCtc",
    "DecodableInterface",
    "FasterDecoder",
    "FasterDecoderOptions",
    "LatticeSimpleDecoder",
    "LatticeSimpleDecoderConfig",
    "SimpleDecoder",
]
