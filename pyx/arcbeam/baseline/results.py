"""The results of the baseline's decoders."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.core.show import Formatted
from arcbeam.lm.kenlm import LN10
from arcbeam.words import Word, finite

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class Hypothesis(Formatted):
    """One answer to an utterance.

    Attributes
    ----------
    words : list of arcbeam.words.Word
        With times; a word spans its tokens, without silence at its end.
    tokens : int32[frames]
        The column that the path reads in each frame; fewer frames if the search died.
    score : float
        The score that the search maximises: ``am_score + lm_weight * lm_score_log10`` plus the scores of words, unknown
        words and silences. With ``log_add`` it is the sum over paths, and the other figures are those of the best path.
        -inf if the search died, so that no ranking prefers it.
    am_score : float
        Sum of the log-probs, natural logs.
    lm_score_log10 : float
        Sum of the language model's scores, log10 as in KenLM, including the end of the sentence.
    partial_score : float
        The score even if the search died; such a path is shorter than others, so their scores do not compare.
    blank, silence : int
        The columns by which `tokens` collapse; without a silence token both are the blank's.
    """

    words: list[Word]
    tokens: npt.NDArray[np.int32]
    score: float
    am_score: float
    lm_score_log10: float
    partial_score: float
    blank: int = field(repr=False)
    silence: int = field(repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hypothesis):
            return NotImplemented
        mine, others = (_values(h) for h in (self, other))
        return mine == others

    __hash__ = None  # type: ignore[assignment]

    @property
    def lm_score(self) -> float:
        """Sum of the language model's scores, natural logs, including the end of the sentence."""
        return self.lm_score_log10 * LN10

    @property
    def text(self) -> str:
        """The words, with a space between them."""
        return " ".join(word.word for word in self.words)

    def __str__(self) -> str:
        return self.text

    @property
    def collapsed_tokens(self) -> npt.NDArray[np.int32]:
        """The columns of the path, each once, without blanks: what torchaudio's ``ctc_decoder`` calls ``tokens``.

        int32[L]. As there, a silence stands before the first frame and another after the last, so the array begins
        and ends with silence (without a silence token it does not), and repeats of silence count as one with it. A
        repeat of another column is a new token only after a blank.
        """
        return self._path[self.timesteps]

    @cached_property
    def timesteps(self) -> npt.NDArray[np.int32]:
        """Where each of `collapsed_tokens` begins: the ``timesteps`` of torchaudio's ``ctc_decoder``.

        int32[L], ascending. The timestep of frame t is t + 1, because 0 is that of the silence before the first frame.
        The silence after n frames has n + 1. ``(timesteps - 1) * frame_shift`` are seconds.
        """
        path = self._path
        begins = path != self.blank
        begins[1:] &= path[1:] != path[:-1]
        return np.flatnonzero(begins).astype(np.int32)

    @property
    def _path(self) -> npt.NDArray[np.int32]:
        """The column of each timestep, int32[frames + 2]."""
        return np.pad(self.tokens, 1, constant_values=self.silence)

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON: a score of -inf becomes None."""
        scores = ("score", "partial_score", "am_score", "lm_score", "lm_score_log10")
        return {
            "text": self.text,
            "words": [word._asdict() for word in self.words],
            "tokens": self.tokens.tolist(),
            "collapsed_tokens": self.collapsed_tokens.tolist(),
            "timesteps": self.timesteps.tolist(),
            **{name: finite(getattr(self, name)) for name in scores},
        }


def _values(one: Hypothesis) -> tuple[object, ...]:
    return one.words, one.score, one.partial_score, one.am_score, one.lm_score_log10, one.tokens.tolist()


@dataclass(frozen=True)
class Result(Formatted):
    """The answers to one utterance, best first; they differ in their words (without a lexicon, in their tokens).

    Attributes
    ----------
    nbest : list of Hypothesis
        Never empty; sorted by score, equal scores by fewer words, then by the words' places in the lexicon, the last
        word first.
    complete : bool
        False if no hypothesis ended with a whole word, or the search died before the last frame.
    error : ValueError or None
        The reason why the utterance could not be decoded, with ``errors="return"``: then the only hypothesis has no
        words, and scores of -inf.
    """

    nbest: list[Hypothesis]
    complete: bool
    error: ValueError | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def best(self) -> Hypothesis:
        """The first of the answers."""
        return self.nbest[0]

    @property
    def text(self) -> str:
        """The best answer's words, with a space between them."""
        return self.best.text

    @property
    def words(self) -> list[Word]:
        """The best answer's words with their times."""
        return self.best.words

    @property
    def score(self) -> float:
        """The best answer's score."""
        return self.best.score

    def to_dict(self) -> dict[str, Any]:
        """The answers, best first, whether the search is complete, and the error's text, as plain values for JSON."""
        return {
            "nbest": [hypothesis.to_dict() for hypothesis in self.nbest],
            "complete": self.complete,
            "error": None if self.error is None else str(self.error),
        }


def undecoded(error: ValueError) -> Result:
    """The result of an utterance that could not be decoded."""
    never = -math.inf
    nothing = Hypothesis([], np.empty(0, np.int32), never, never, never, never, blank=0, silence=0)
    return Result([nothing], complete=False, error=error)
