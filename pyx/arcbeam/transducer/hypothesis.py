"""The tokens that a transducer wrote, and the state from which the next chunk of its stream continues."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcbeam.core.errors import Fault
from arcbeam.core.show import Formatted
from arcbeam.transducer.growing_words import GrowingWords, Written
from arcbeam.transducer.text import Pieces
from arcbeam.words import Word, as_dicts, finite

if TYPE_CHECKING:
    from arcbeam.ctc.lattice.lattice import Lattice

FIELDS = {
    "tokens": np.int32, "frames": np.int64, "durations": np.int32, "log_probs": np.float32, "confidence": np.float32,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TransducerState:
    """The state of an utterance after its frames: give it to the decode of the next chunk. It can be pickled.

    Attributes
    ----------
    hidden, cell : float32[layers, units]
        The state of an LSTM; no layers for a stateless network.
    context : int32[context]
        The last tokens of a stateless network, oldest first, -1 for a place without a token yet; empty for an LSTM.
    skip : int
        Frames of the next chunk that the duration of a token or blank (TDT) has already passed.
    frames : int
        Frames since the start of the stream.
    boosting_tree, ngram_lm : (int, str)
        The states in the boosting tree and in the n-gram model, and the digests of those; 0 and "" without one.
    """

    hidden: np.ndarray
    cell: np.ndarray
    context: np.ndarray
    skip: int
    frames: int
    boosting_tree: tuple[int, str] = (0, "")
    ngram_lm: tuple[int, str] = (0, "")


class Left(NamedTuple):
    """What a chunk of a stream leaves to those after it."""

    state: Any  # of the search; it has `frames`, those of the stream so far
    num_settled: int  # tokens of the chunk's hypothesis, from the first, that no later frame changes
    models: Any  # of n-gram models, the states after the hypothesis, with which a next sentence may begin


@dataclass(frozen=True, eq=False)
class HypothesisForm:
    """The data that the hypotheses of one decoder share."""

    has_durations: bool
    has_confidence: bool
    state_shapes: Mapping[str, tuple[int, ...]]
    frame_shift: float | None
    detokenize: Callable[[Sequence[int]], str] | None
    confidence_aggregation: str = "min"
    takes_back: bool = False  # whether a later frame may take tokens back: with a beam

    @property
    def fields(self) -> dict[str, type]:
        """The arrays that tokens have, and their dtypes."""
        absent = {"durations": not self.has_durations, "confidence": not self.has_confidence}
        return {name: dtype for name, dtype in FIELDS.items() if not absent.get(name)}

    def spelled(self) -> GrowingWords | None:
        """The words of a sentence that begins; None if it is not known what each token adds to them."""
        return GrowingWords(self.detokenize) if isinstance(self.detokenize, Pieces) else None


class TransducerHypothesis(Formatted):
    """The tokens of one utterance, or of one chunk of a stream.

    Attributes
    ----------
    tokens : int32[n]
    frames : int64[n]
        The frame of the encoder output that each token was written on, counted from the start of the stream.
    durations : int32[n] or None
        Frames by which the decoder moved on after each token; None for an RNN-T.
    log_probs : float32[n]
        Natural-log probability of each token among all tokens.
    confidence : float32[n] or None
        The confidence of each token by the decoder's option; None without that option.
    state : TransducerState
        The state from which the next chunk continues. None with a beam, where reading it is an `UnsupportedError`:
        chunks are decoded as a stream.
    posterior : float or None
        With a beam: the probability of the tokens among all hypotheses that the search ended with, of which there are
        at most ``max_hypotheses``; the softmax of their scores, in [0, 1]. None of greedy search.
    network_score, lm_score, boost_score, lodr_score, ilm_score : float or None
        With a beam: the parts of the score, which add up to it: of the network, the n-gram model, the boosting tree,
        the n-gram model of LODR and the internal language model, whose part is what its subtraction added. None of
        greedy search.
    nbest : list of TransducerHypothesis or None
        The best distinct sequences of tokens, this one as the first; None if not requested, and in entries of a list.
        No entries if the frames could not be decoded. With a beam, frames, durations, log-probs and confidences are
        those of the strongest single path that writes the tokens.
    lattice : Lattice or None
        With a beam: the paths that the search has kept; None if not requested. It has no tokens if the frames could not
        be decoded. Its best path is the strongest single one, which with ``merge="sum"`` may write another entry of the
        list.
    error : ValueError, TypeError or None
        Why the frames could not be decoded, with ``errors="return"``: then there are no tokens, and the state is the
        one before them.
    """

    tokens: np.ndarray
    frames: np.ndarray
    durations: np.ndarray | None
    log_probs: np.ndarray
    confidence: np.ndarray | None
    state: TransducerState
    posterior: float | None = None
    network_score: float | None = None
    lm_score: float | None = None
    boost_score: float | None = None
    lodr_score: float | None = None
    ilm_score: float | None = None
    nbest: Sequence[TransducerHypothesis] | None = None
    lattice: Lattice | None = None

    def __init__(
        self,
        take: Callable[[int], tuple[Any, ...]],
        place: int,
        form: HypothesisForm,
        error: Fault | None = None,
        digests: tuple[str, str] = ("", ""),
    ) -> None:
        self._digests = digests
        self._take: Callable[[int], tuple[Any, ...]] | None = take
        self._place = place
        self._form = form
        self.error = error

    def __getattr__(self, name: str) -> Any:
        # A thousand utterances may be decoded in a few milliseconds, so arrays are cut out only on first use.
        take = self.__dict__.get("_take")
        if name in TransducerHypothesis.__annotations__ and take is not None:
            self._fill(*take(self._place))
        if name not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return self.__dict__[name]

    def _fill(
        self,
        tokens: np.ndarray,
        frames: np.ndarray,
        durations: np.ndarray,
        log_probs: np.ndarray,
        confidence: np.ndarray,
        state: tuple[Any, ...],
    ) -> None:
        form = self._form
        hidden, cell, context, skip, passed, (in_lm, in_tree) = state
        of_lm, of_tree = self._digests
        self.tokens, self.frames, self.log_probs = tokens, frames, log_probs
        self.durations = durations if form.has_durations else None
        self.confidence = confidence if form.has_confidence else None
        hidden, cell = hidden.reshape(form.state_shapes["hidden"]), cell.reshape(form.state_shapes["cell"])
        self.state = TransducerState(
            hidden, cell, context, skip, passed, boosting_tree=(in_tree, of_tree), ngram_lm=(in_lm, of_lm)
        )
        self._take = None  # it would keep the results of the other utterances alive

    def to_dict(self) -> dict[str, Any]:
        """All attributes but `state` and `lattice` as plain values for JSON; None for one that is not there.

        A score of -inf becomes None, and an error becomes its text.
        """
        listed = ("tokens", "frames", "times", "durations", "log_probs", "confidence")
        return {
            "text": self.text if self._has_text() else None,
            "words": as_dicts(self.words) if self._has_words() else None,
            **{name: None if (array := getattr(self, name)) is None else array.tolist() for name in listed},
            "score": finite(self.score),
            "complete": self.complete,
            "error": None if self.error is None else str(self.error),
        }

    @property
    def _left(self) -> Left:
        """What it leaves to the next chunk."""
        return Left(self.state, len(self.tokens), self.state.ngram_lm)

    @property
    def _num_settled(self) -> int:
        """Tokens, from the first, that no later frame changes."""
        return len(self.tokens)

    def _has_text(self) -> bool:
        return "text" in self.__dict__ or self._form.detokenize is not None

    def _has_words(self) -> bool:
        return "words" in self.__dict__ or self._spelled is not None

    @cached_property
    def _spelled(self) -> GrowingWords | None:
        return self._form.spelled()

    def __getstate__(self) -> dict[str, Any]:
        # What is said is pickled instead of its tokenizer, which may be large or a function that cannot be pickled.
        _ = self.tokens, self._has_text() and self.text, self._has_words() and self.words
        return self.__dict__ | {"_form": replace(self._form, state_shapes={}, detokenize=None), "_spelled": None}

    @property
    def complete(self) -> bool:
        """False if the frames could not be decoded: then ``error`` says why."""
        return self.error is None

    @property
    def score(self) -> float:
        """The sum of the tokens' log-probs, blanks not counted; -inf if the frames could not be decoded.

        With a beam it is the natural log of the probability of the tokens, blanks and durations counted: of all paths
        that the search has kept with ``merge="sum"``, of the strongest one with ``merge="max"``. What n-gram models, a
        tree and the internal language model add is in it.
        """
        return -math.inf if self.error is not None else math.fsum(self.log_probs.tolist())

    @property
    def times(self) -> np.ndarray | None:
        """float64[n]: where each token's frame starts, in seconds; None if the decoder has no ``frame_shift``."""
        return None if self._form.frame_shift is None else self.frames * self._form.frame_shift

    @cached_property
    def text(self) -> str:
        """The text of the tokens.

        Raises
        ------
        ValueError
            The decoder was given no tokenizer.
        """
        if self._form.detokenize is None:  # there was none when it was pickled, either
            raise ValueError("text: the decoder has no tokenizer; give tokenizer= when it is made")
        return self._form.detokenize(self.tokens.tolist())

    @cached_property
    def words(self) -> list[Word]:
        """The words of the text with their times, and with their confidences if the tokens have them.

        A word starts with the frame of the first token that adds a letter to it, and ends where its last token does: a
        token of an RNN-T lasts one frame, one of a TDT its duration, but at least one frame. Words of tokens on one
        frame overlap there. Tokens of spaces alone are of no word. A word's confidence is made of those of its tokens,
        as ``confidence_aggregation`` says.

        Raises
        ------
        ValueError
            The decoder was given no tokenizer, or a function, which does not say what each token adds.
        """
        if self._spelled is None:
            raise ValueError(
                "words: expected a decoder with the text of each token; make it with tokenizer= a "
                "SentencePiece model or a list of pieces"
            )
        form = self._form
        return self._spelled.words(
            Written(
                self.tokens,
                self.frames,
                self.durations,
                self.confidence,
                form.frame_shift,
                form.confidence_aggregation,
                self._num_settled,
            )
        )

    def __str__(self) -> str:
        return self.text if self._has_text() else repr(self)

    def __repr__(self) -> str:
        if self.error is not None:
            return f"TransducerHypothesis(error={self.error!r})"
        what = repr(self.text) if self._has_text() else f"{len(self.tokens)} tokens"
        return f"TransducerHypothesis({what})"


def left_of(chunk: TransducerHypothesis) -> Left:
    """What the hypothesis of a chunk leaves to the next one."""
    return chunk._left
