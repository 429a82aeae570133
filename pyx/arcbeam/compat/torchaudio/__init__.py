"""torchaudio's ``ctc_decoder`` and ``cuda_ctc_decoder``; neither torchaudio nor flashlight-text is needed.

``docs/guide/from-torchaudio.md`` lists the differences. May import: arrays, baseline, compat, core,
files, graph, lm.
"""

from arcbeam.compat.torchaudio.cuda import CUCTCDecoder, CUCTCHypothesis, cuda_ctc_decoder
from arcbeam.compat.torchaudio.decoder import CTCDecoder, CTCHypothesis, ctc_decoder

__all__ = ["CTCDecoder", "CTCHypothesis", "CUCTCDecoder", "CUCTCHypothesis", "ctc_decoder", "cuda_ctc_decoder"]
