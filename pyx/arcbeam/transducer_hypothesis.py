"""What a transducer wrote, and what the next chunk of its stream goes on from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class TransducerState:
    """Where an utterance stands after its frames: give it to the decode of the next chunk. Can be pickled.

    Attributes
    ----------
    hidden, cell : float32[layers, units]
        Of an LSTM; no layers for a stateless network.
    context : int32[context]
        The last tokens of a stateless network, oldest first, -1 where there is none yet; empty for an LSTM.
    skip : int
        Frames of the next chunk that the duration of a token or blank (TDT) has already passed.
    frames : int
        Frames since the start of the stream.
    """

    hidden: np.ndarray
    cell: np.ndarray
    context: np.ndarray
    skip: int
    frames: int


class TransducerHypothesis:
    """The tokens of one utterance, or of one chunk of a stream.

    Attributes
    ----------
    tokens : int32[n]
    frames : int64[n]
        The frame of the encoder output that each token was written on, counted from the start of the stream.
    durations : int32[n] or None
        Frames that the decoder went on after each token; None for an RNN-T.
    log_probs : float32[n]
        Natural-log probability of each token among all tokens.
    confidence : float32[n] or None
        As the decoder's option asks for; None without.
    state : TransducerState
        What the next chunk goes on from.
    """

    def __init__(
        self,
        tokens: np.ndarray,
        frames: np.ndarray,
        durations: np.ndarray | None,
        log_probs: np.ndarray,
        confidence: np.ndarray | None,
        state: TransducerState,
        frame_shift: float | None,
        detokenize: Callable[[Sequence[int]], str] | None,
    ) -> None:
        self.tokens = tokens
        self.frames = frames
        self.durations = durations
        self.log_probs = log_probs
        self.confidence = confidence
        self.state = state
        self._frame_shift = frame_shift
        self._detokenize = detokenize

    @property
    def times(self) -> np.ndarray | None:
        """float64[n]: where each token's frame starts, in seconds; None if the decoder has no ``frame_shift``."""
        return None if self._frame_shift is None else self.frames * self._frame_shift

    @cached_property
    def text(self) -> str:
        """The text of the tokens.

        Raises
        ------
        ValueError
            The decoder was given no tokenizer.
        """
        if self._detokenize is None:
            raise ValueError("text: the decoder has no tokenizer; give tokenizer= when it is made")
        return self._detokenize(self.tokens.tolist())

    def __repr__(self) -> str:
        what = f"{len(self.tokens)} tokens" if self._detokenize is None else repr(self.text)
        return f"TransducerHypothesis({what})"
