"""pyctcdecode: prefix beam search in Python, its LM by KenLM; one core.

Its log-probs come scaled, so that ``alpha`` 1 weighs LM and model as a graph does. Words outside the LM's unigrams are
not forbidden but pay ``unk_score_offset``; its unigrams are the lexicon. It keeps ``beam_width`` prefixes and looks at
tokens above ``token_min_logp`` only, its default of -5 here as it is what makes it usable.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyctcdecode

from benchmarks.adapters import Answer, SearchOptions, distinct
from benchmarks.data.graphs import GraphFiles

TOKEN_MIN_LOGP = -5.0


class PyCtcDecode:
    name = "pyctcdecode"
    device = "cpu"

    def __init__(self, files: GraphFiles, options: SearchOptions, beam_width: int | None = None) -> None:
        self.scale = np.float32(options.acoustic_scale)
        self.beam = options.beam
        self.beam_width = beam_width or options.beam_size
        self.settings = (
            f"beam_width {self.beam_width:,}, beam_prune_logp {-self.beam:g}, token_min_logp {TOKEN_MIN_LOGP:g}, "
            f"alpha {options.lm_weight:g}, beta {options.word_score:g}, acoustic scale {options.acoustic_scale:g}"
        )
        tokens = files.tokens
        labels = ["" if column == tokens.blank else token for column, token in enumerate(tokens.tokens)]
        if files.graph.separator_column is not None:
            labels[files.graph.separator_column] = " "
        self.decoder = pyctcdecode.build_ctcdecoder(
            labels, str(files.arpa()), sorted({word for word, _ in files.lexicon()}), alpha=options.lm_weight,
            beta=options.word_score,
        )  # fmt: skip

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> list[npt.NDArray[np.float32]]:
        return [np.ascontiguousarray(u, np.float32) * self.scale for u in utterances]

    def decode(self, prepared: Any) -> Any:
        return [
            self.decoder.decode_beams(
                log_probs, beam_width=self.beam_width, beam_prune_logp=-self.beam, token_min_logp=TOKEN_MIN_LOGP
            )
            for log_probs in prepared
        ]

    def decode_with_hotwords(self, prepared: Any, lists: Sequence[Sequence[str]], weight: float) -> Any:
        """The same with words that are made likelier, for each utterance its own; their weight is a natural log."""
        return [
            self.decoder.decode_beams(
                log_probs, beam_width=self.beam_width, beam_prune_logp=-self.beam, token_min_logp=TOKEN_MIN_LOGP,
                hotwords=words, hotword_weight=weight,
            )
            for log_probs, words in zip(prepared, lists, strict=True)
        ]  # fmt: skip

    def answers(self, decoded: Any) -> list[Answer]:
        # A beam is (text, LM state, frames, logit score, logit and LM score).
        return [Answer(" ".join(beams[0][0].split()), -float(beams[0][-1]), True) for beams in decoded]

    def alternatives(self, decoded: Any) -> list[list[str]]:
        return [distinct(" ".join(beam[0].split()) for beam in beams) for beams in decoded]


ADAPTER = PyCtcDecode
