"""The decoder that torchaudio has for CUDA: prefix beam search over tokens, here on the CPU's prefix search."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcbeam.arrays.batches import InputSpec, as_inputs
from arcbeam.arrays.input_warnings import InputWarnings
from arcbeam.arrays.input_warnings import named as named_column
from arcbeam.baseline._prefix import PrefixEngine
from arcbeam.compat.tensors import on_host
from arcbeam.compat.torchaudio.tokens import columns_of
from arcbeam.core.checks import as_float, check_count, check_threads
from arcbeam.core.errors import InputError
from arcbeam.core.threads import usable_cores
from arcbeam.core.warn import warn

if TYPE_CHECKING:
    import numpy.typing as npt


BLANKS = ("<blank>", "<blk>", "[blank]", "<ctc_blank>")
"""Tokens that can be nothing but the blank."""


class CUCTCHypothesis(NamedTuple):
    """An answer to an utterance.

    Attributes
    ----------
    tokens : list of int
        Columns without repeats and blanks.
    words : list of str
        The names of these columns.
    score : float
        Natural log of the sum of the probabilities of the paths that the search has kept.
    """

    tokens: list[int]
    words: list[str]
    score: float


class CUCTCDecoder:
    """What :func:`cuda_ctc_decoder` makes.

    Call it with log-probs and lengths: ``decoder(log_prob, encoder_out_lens)``.

    Parameters
    ----------
    vocab_list : sequence of str
        The names of the columns.
    blank_id : int
        The blank's column, any of them.
    beam_size : int
        Hypotheses kept after each frame.
    nbest : int
        The most answers for each utterance.
    blank_skip_threshold : float
        A frame in which the blank is likelier than this has no other token.
    threads : int or None
        CPU threads, one utterance each; None for one per usable core.

    Raises
    ------
    TypeError, ValueError
        An option out of its range.
    """

    def __init__(
        self,
        vocab_list: Sequence[str],
        blank_id: int = 0,
        beam_size: int = 10,
        nbest: int = 1,
        blank_skip_threshold: float = 0.95,
        *,
        threads: int | None = None,
    ) -> None:
        check_count("beam_size", beam_size, or_none="")
        check_count("nbest", nbest, or_none="")
        if threads is not None:
            check_threads(threads)
        if not 0 <= as_float("blank_skip_threshold", blank_skip_threshold, "from 0 to 1") <= 1:
            raise ValueError(f"blank_skip_threshold: expected a number from 0 to 1, got {blank_skip_threshold!r}")
        self.vocab_list = list(vocab_list)
        if not 0 <= blank_id < len(self.vocab_list):
            raise ValueError(f"blank_id: expected a column from 0 to {len(self.vocab_list) - 1}, got {blank_id!r}")
        names = [str(token).lower() for token in self.vocab_list]
        usual = BLANKS if not names[blank_id].isalnum() else (*BLANKS, "-")  # a hyphen, unless a letter is the blank
        named = [column for column, name in enumerate(names) if name in usual]
        if named and blank_id not in named:
            warn(
                f"blank_id: expected {self.vocab_list[named[0]]!r}, which is column {named[0]}, got "
                f"{self.vocab_list[blank_id]!r}, which is column {int(blank_id)}; give blank_id={named[0]}"
            )
        self.blank_id, self.beam_size, self.nbest = int(blank_id), int(beam_size), int(nbest)
        self.blank_skip_threshold = float(blank_skip_threshold)
        # To the search, each token is a word that is spelled by its number.
        spelled = [str(column).encode() for column in range(len(self.vocab_list))]
        kinds = ["blank" if column == blank_id else "start" for column in range(len(spelled))]
        self._warnings = InputWarnings(len(spelled), self.blank_id, True, partial(named_column, self.vocab_list))
        self._engine = PrefixEngine(
            symbols=[(i, kind, text, text, False) for i, (kind, text) in enumerate(zip(kinds, spelled, strict=True))],
            lm=None,
            vocabulary=[],
            threads=threads or usable_cores(),
        )

    def __call__(self, log_prob: Any, encoder_out_lens: Any) -> list[list[CUCTCHypothesis]]:
        """Decodes a batch.

        Parameters
        ----------
        log_prob : torch.Tensor or array [batch, frames, columns]
            Natural-log probabilities of any float dtype, in the memory of a GPU, from which they are copied, or of the
            CPU. ``-inf`` means never.
        encoder_out_lens : torch.Tensor or array of int [batch]
            Frames of each utterance.

        Returns
        -------
        list of list of CUCTCHypothesis
            Of each utterance, best first; they differ in their tokens.

        Raises
        ------
        TypeError, ValueError
            NaN or +inf, a frame of -inf alone, wrong dimensions, width or lengths.
        """
        array, lengths = on_host(log_prob), on_host(encoder_out_lens)
        columns = len(self.vocab_list)
        if array.ndim != 3 or array.shape[2] != columns:
            raise InputError("log_prob", f"expected [batch, frames, {columns}], got {list(array.shape)}")
        if array.dtype.kind != "f":
            raise TypeError(f"log_prob: expected floating-point numbers, got {array.dtype}")
        if lengths.shape != array.shape[:1] or lengths.dtype.kind not in "iu":
            got = f"{lengths.dtype} {list(lengths.shape)}"
            raise TypeError(f"encoder_out_lens: expected {len(array)} integers, one for each utterance, got {got}")
        if len(wrong := lengths[(lengths < 0) | (lengths > array.shape[1])]):
            raise ValueError(f"encoder_out_lens: expected at most {array.shape[1]} frames, got {wrong[0]}")
        self._warn(array, lengths)
        found = self._engine.decode(
            [self._tokens_of(i, one[:length]) for i, (one, length) in enumerate(zip(array, lengths, strict=True))],
            alpha=0.0, beta=0.0, unknown=0.0, to_natural=0.0, boundary=False, beam_width=self.beam_size,
            beam_prune=-math.inf, prune_history=False, nbest=self.nbest, hotwords=[], hotword_weight=0.0, start=b"",
        )  # fmt: skip
        return [[self._hypothesis(text, score) for text, _, score, *_ in answers] for answers in found]

    def _warn(self, log_probs: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> None:
        """Warns of values that seem to be no log-probs, and of a blank that is seldom the best."""
        if log_probs.dtype.itemsize > 4:
            log_probs = log_probs.astype(np.float32)
        batch = as_inputs(log_probs, lengths, InputSpec(len(self.vocab_list), True))
        self._warnings.checks.check(batch.table)
        if self._warnings.checks.has_news:
            self._warnings.warn()

    def _hypothesis(self, text: str, score: float) -> CUCTCHypothesis:
        tokens = [int(number) for number in text.split()]
        return CUCTCHypothesis(tokens, [self.vocab_list[column] for column in tokens], score)

    def _tokens_of(self, utterance: int, log_probs: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """The blank and the likeliest tokens of each frame, as the engine takes them.

        A hypothesis keeps its tokens, or gets one of those that `beam_size` others do not surpass.
        """
        most = self.beam_size + 2
        likely = np.isfinite(log_probs)
        bad = np.isnan(log_probs) | np.isposinf(log_probs)
        if bad.any() or not likely.any(axis=1).all():
            frame = int(np.flatnonzero(bad.any(axis=1) | ~likely.any(axis=1))[0])
            column = int(log_probs[frame].argmax())  # NaN wins
            reason = f"expected finite values, and not -inf in all columns, got {log_probs[frame, column]}"
            raise InputError("log_prob", reason, utterance=utterance, frame=frame, column=column)
        blank = log_probs[:, self.blank_id]
        if most < log_probs.shape[1] and len(log_probs):
            least = np.partition(log_probs, -most, axis=1)[:, -most]
            likely &= log_probs >= least[:, None]
        with np.errstate(divide="ignore"):
            likely[blank > np.log(self.blank_skip_threshold)] = False
        likely[:, self.blank_id] = np.isfinite(blank)
        frames, columns = likely.nonzero()
        offsets = np.searchsorted(frames, np.arange(len(likely) + 1))
        return offsets.astype(np.int64), columns.astype(np.uint32), log_probs[likely].astype(np.float64)


def cuda_ctc_decoder(
    tokens: str | os.PathLike[str] | Sequence[str],
    nbest: int = 1,
    beam_size: int = 10,
    blank_skip_threshold: float = 0.95,
    *,
    blank_id: int = 0,
    threads: int | None = None,
) -> CUCTCDecoder:
    """A decoder with torchaudio's arguments.

    Parameters
    ----------
    tokens : path or sequence of str
        The names of the columns; in a file, one a line.
    nbest, beam_size, blank_skip_threshold, blank_id, threads
        As of :class:`CUCTCDecoder`.

    Raises
    ------
    FormatError, OSError
        The file of tokens has another form, or cannot be read.
    TypeError, ValueError
        An option out of its range.
    """
    return CUCTCDecoder(columns_of(tokens), blank_id, beam_size, nbest, blank_skip_threshold, threads=threads)
