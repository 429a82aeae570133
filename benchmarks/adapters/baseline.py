"""arcbeam's lexicon and lexicon-free decoders; and the task that they share with flashlight-text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.baseline import KenLM, LexiconDecoder, LexiconFreeDecoder
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon


@dataclass(frozen=True)
class Task:
    """What is decoded with what.

    lexicon : None decodes without one
    lm : file of the language model, of words or, without a lexicon, of tokens; None for none
    silence : column, or None
    options : those of :class:`arcbeam.baseline.LexiconOptions` by name
    """

    tokens: TokenTable
    lexicon: Lexicon | None
    lm: Path | None
    silence: int | None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SpokenAnswer:
    """One of the answers to an utterance, in any decoder's terms. Scores: larger is better."""

    words: tuple[str, ...]
    tokens: tuple[int, ...]
    score: float
    am_score: float
    lm_score: float

    @property
    def text(self) -> str:
        return " ".join(self.words)


@lru_cache(maxsize=1)
def language_model(path: Path) -> KenLM:
    """A loaded model, for decoders that take turns."""
    return KenLM(path)


class Baseline:
    name = "arcbeam baseline"

    def __init__(self, task: Task, threads: int = 1) -> None:
        self.task = task
        lm = None if task.lm is None else language_model(task.lm)
        more: dict[str, Any] = {"blank": task.tokens.blank, "sil": task.silence, "threads": threads}
        self.decoder: LexiconDecoder | LexiconFreeDecoder
        if task.lexicon is None:
            self.decoder = LexiconFreeDecoder(task.tokens, lm, **more, **task.options)
        else:
            self.decoder = LexiconDecoder(task.lexicon, task.tokens, lm, **more, **task.options)

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> list[npt.NDArray[np.float32]]:
        return [np.ascontiguousarray(u, np.float32) for u in utterances]

    def decode(self, prepared: Any) -> Any:
        return self.decoder.decode(prepared)

    def answers(self, decoded: Any) -> list[list[SpokenAnswer]]:
        spoken = self.task.lexicon is not None
        return [
            [
                SpokenAnswer(
                    tuple(w.word for w in h.words) if spoken else (), tuple(h.tokens.tolist()), h.partial_score,
                    h.am_score, h.lm_score_log10,
                )
                for h in result.nbest
            ]
            for result in decoded
        ]  # fmt: skip


ADAPTER = Baseline
