"""riva-asrlib-decoder's decoders and options, on the search of `CtcDecoder`.

``docs/guide/from-riva-and-kaldi.md`` lists the differences. May import: compat, core, ctc, ctc/lattice, graph,
lattices.
"""

from arcbeam.compat.riva.alias import install
from arcbeam.compat.riva.config import (
    BatchedMappedDecoderCudaConfig,
    BatchedMappedOnlineDecoderCudaConfig,
    CudaDecoderConfig,
    DeterminizeLatticePhonePrunedOptions,
    LatticePostprocessorConfig,
    MinimumBayesRiskOptions,
    OnlineEndpointConfig,
    OnlineEndpointRule,
    WordBoundaryInfoNewOpts,
)
from arcbeam.compat.riva.decoder import BatchedMappedDecoderCuda
from arcbeam.compat.riva.online import BatchedMappedOnlineDecoderCuda
from arcbeam.compat.riva.results import NBestResult, PartialHypothesisEx

__all__ = [
    "BatchedMappedDecoderCuda",
    "BatchedMappedDecoderCudaConfig",
    "BatchedMappedOnlineDecoderCuda",
    "BatchedMappedOnlineDecoderCudaConfig",
    "CudaDecoderConfig",
    "DeterminizeLatticePhonePrunedOptions",
    "LatticePostprocessorConfig",
    "MinimumBayesRiskOptions",
    "NBestResult",
    "OnlineEndpointConfig",
    "OnlineEndpointRule",
    "PartialHypothesisEx",
    "WordBoundaryInfoNewOpts",
    "install",
]
