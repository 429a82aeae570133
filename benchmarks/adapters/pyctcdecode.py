"""pyctcdecode: prefix beam search in Python, its LM by KenLM; one core. ``build`` takes another package of its calls.

Its log-probs come scaled, so that ``alpha`` 1 weighs LM and model as a graph does. Words outside the LM's unigrams are
not forbidden but pay ``unk_score_offset``; its unigrams are the lexicon. It keeps ``beam_width`` prefixes and looks at
tokens above ``token_min_logp`` only; its default of -5 is what makes it usable.

It finds hotwords by a regular expression, which takes most of the time that a new list costs. Python keeps the last 512
of them, so that a list that comes again is cheaper; ``forget_hotwords`` drops them.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyctcdecode

from benchmarks.adapters import Answer, SearchOptions, distinct
from benchmarks.data.graphs import GraphFiles

TOKEN_MIN_LOGP = -5.0


@cache
def built(files: GraphFiles, build: Callable[..., Any]) -> Any:
    """The decoder of a graph's LM and words, one for all settings; its weights are set before each call."""
    tokens = files.tokens
    labels = ["" if column == tokens.blank else token for column, token in enumerate(tokens.tokens)]
    if files.graph.separator_column is not None:
        labels[files.graph.separator_column] = " "
    return build(labels, str(files.arpa()), sorted({word for word, _ in files.lexicon()}))


class PyCtcDecode:
    name = "pyctcdecode"
    device = "cpu"

    def __init__(
        self,
        files: GraphFiles,
        options: SearchOptions,
        beam_width: int | None = None,
        token_min_logp: float = TOKEN_MIN_LOGP,
        build: Callable[..., Any] = pyctcdecode.build_ctcdecoder,
    ) -> None:
        self.scale = np.float32(options.acoustic_scale)
        self.beams = {
            "beam_width": beam_width or options.beam_size,
            "beam_prune_logp": -options.beam,
            "token_min_logp": token_min_logp,
        }
        self.weights = {"alpha": options.lm_weight, "beta": options.word_score}
        named = ", ".join(f"{name} {value:,g}" for name, value in (self.beams | self.weights).items())
        self.settings = f"{named}, acoustic scale {options.acoustic_scale:g}"
        self.decoder = built(files, build)

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> list[npt.NDArray[np.float32]]:
        return [np.ascontiguousarray(u, np.float32) * self.scale for u in utterances]

    def decode(self, prepared: Any) -> Any:
        self.decoder.reset_params(**self.weights)
        return [self.decoder.decode_beams(log_probs, **self.beams) for log_probs in prepared]

    def decode_with_hotwords(self, prepared: Any, lists: Sequence[Sequence[str]], weight: float) -> Any:
        """The same with words that are made likelier, for each utterance its own; their weight is a natural log."""
        self.decoder.reset_params(**self.weights)
        return [
            self.decoder.decode_beams(log_probs, hotwords=words, hotword_weight=weight, **self.beams)
            for log_probs, words in zip(prepared, lists, strict=True)
        ]

    def forget_hotwords(self) -> None:
        """Drops what is kept of lists that it had."""
        re.purge()

    def answers(self, decoded: Any) -> list[Answer]:
        # A beam is (text, LM state, frames, logit score, logit and LM score).
        return [Answer(" ".join(beams[0][0].split()), -float(beams[0][-1]), True) for beams in decoded]

    def alternatives(self, decoded: Any) -> list[list[str]]:
        return [distinct(" ".join(beam[0].split()) for beam in beams) for beams in decoded]


ADAPTER = PyCtcDecode
