"""Warns if some frames of a batch are no log-probs, if all tokens of one tie, or if another column seems the blank.

And if the axes of a batch seem to be in another order, or if logits seem to be probabilities or padding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._input_checks import ABOVE_ZERO, BLANK_SELDOM, SUMS_ABOVE, SUMS_BELOW, TOO_LOW, InputChecks
from arcbeam.arrays.batches import Inputs
from arcbeam.core.axes import has_more_utterances_than_frames, why_time_first
from arcbeam.core.errors import InputWarning
from arcbeam.core.warn import warn

LOGITS = "logits (take their log-softmax, as logits=True (--logits) does)"  # other libraries' names lack these options
UTTERANCES_OF_LOGITS, CALLS_OF_LOGITS = 8, 20  # of a batch, of which three frames each are checked; calls that have it
SUM_OF_PROBABILITIES = 0.01  # by which the sum of some in float16 may differ from 1


class InputWarnings:
    """What a decoder has seen of its input; each kind of fault gives one warning, from `warn`, after a batch."""

    def __init__(self, columns: int, blank: int | None, is_exact: bool, token: Callable[[int], str]) -> None:
        self.checks = InputChecks(columns, -1 if blank is None else blank, is_exact)
        self._columns = columns
        self._blank = blank
        self._token = token

    def warn(self) -> None:
        """Warns of the findings that have not been reported; called if `checks.has_news`."""
        sums = SUMS_ABOVE | SUMS_BELOW
        news = self.checks.found & ~self.checks.reported
        if news & ABOVE_ZERO:
            news &= ~sums  # values above 0 explain any sum
        self.checks.reported |= news | (sums if news & (ABOVE_ZERO | sums) else 0)
        for kind, warning in WARNINGS.items():
            if news & kind:
                warn(warning(self))

    def _above_zero(self) -> InputWarning:
        utterance, frame, value = self.checks.sight(ABOVE_ZERO)
        return InputWarning(
            f"log_probs: expected natural logs of probabilities, got {value:g} in",
            f": are they probabilities (take the log), or {LOGITS}?",
            utterance=utterance,
            frame=frame,
        )

    def _sums(self, kind: int, why: str) -> InputWarning:
        utterance, frame, value = self.checks.sight(kind)
        return InputWarning(
            "log_probs: expected natural logs of probabilities, which sum to 1 in a frame, got a sum of "
            f"{value:.3g} in",
            f": {why}",
            utterance=utterance,
            frame=frame,
        )

    def _sums_above(self) -> InputWarning:
        if self.checks.sight(SUMS_ABOVE)[2] == self._columns:  # each column has the probability 1
            return self._sums(SUMS_ABOVE, "all columns are 0. Is it padding (say where utterances end with lengths=)?")
        return self._sums(
            SUMS_ABOVE,
            f"are they logs to base 10 (multiply by 2.302585), {LOGITS}, or were small ones clipped?",
        )

    def _sums_below(self) -> InputWarning:
        return self._sums(
            SUMS_BELOW,
            f"are they {LOGITS}, logs to base 2, were they scaled (use acoustic_scale), or are columns missing?",
        )

    def _too_low(self) -> InputWarning:
        utterance, frame, value = self.checks.sight(TOO_LOW)
        return InputWarning(
            f"log_probs: expected the best column of a frame to be near 0, or all to be -inf, got {value:g} for the "
            "best in",
            ": the graph's differences are lost in the rounding of so large a cost. Is it padding (say where "
            "utterances end with lengths=), or a mask (use np.maximum(log_probs, -1e4))?",
            utterance=utterance,
            frame=frame,
        )

    def _blank_seldom(self) -> InputWarning:
        utterance, frame, _ = self.checks.sight(BLANK_SELDOM)
        blank, frames, other = self._blank, self.checks.counted, self.checks.most_often_best
        assert blank is not None
        return InputWarning(
            f"log_probs: expected the blank, {self._token(blank)}, to be the best column of many frames, got "
            f"{self.checks.best_in(blank)} of {frames} checked frames, up to",
            f", and {self.checks.best_in(other)} for {self._token(other)}: is that the blank (name it with blank=), "
            "or are the columns in another order than the tokens?",
            utterance=utterance,
            frame=frame,
        )


WARNINGS = {
    ABOVE_ZERO: InputWarnings._above_zero,
    SUMS_ABOVE: InputWarnings._sums_above,
    SUMS_BELOW: InputWarnings._sums_below,
    BLANK_SELDOM: InputWarnings._blank_seldom,
    TOO_LOW: InputWarnings._too_low,
}


class LogitsCheck:
    """Checks a few frames of a decoder's first logits in host memory; each kind of fault gives one warning.

    Engines see the log-probs of logits alone, which are in order whatever the logits are.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._zeros, self._probabilities = False, False  # whether they were reported
        self._calls = CALLS_OF_LOGITS

    def __call__(self, inputs: Inputs, logits: npt.NDArray[np.bool_]) -> None:
        """Warns of a frame of zeros, and if all other frames that are checked are probabilities."""
        if not self._calls or not inputs.on_host or inputs.columns < 2:
            return
        places = np.flatnonzero(logits & (inputs.table[:, 2] > 0))
        places = places[:: -(-len(places) // UTTERANCES_OF_LOGITS) or 1]
        frames = [(at, frame) for at in places.tolist() for frame in _three_of(int(inputs.table[at, 2]))]
        if not frames:
            return
        self._calls -= 1
        rows = np.stack([inputs.view(at)[frame] for at, frame in frames]).astype(np.float32)
        with np.errstate(invalid="ignore", over="ignore"):
            is_zero = (rows == 0).all(axis=1)
            is_share = (rows.min(axis=1) >= 0) & (abs(rows.sum(axis=1) - 1) < SUM_OF_PROBABILITIES)
        if is_zero.any() and not self._zeros:
            self._zeros = True
            self._warn(
                "0 in all columns of", "is it padding (say where utterances end with lengths=)?", frames, is_zero
            )
        if is_share.any() and (is_share | is_zero).all() and not self._probabilities:
            self._probabilities = True
            why = "are they probabilities (take the log, without logits=True (--logits))?"
            self._warn("values from 0 to 1, which sum to 1, in", why, frames, is_share)

    def _warn(self, got: str, why: str, frames: list[tuple[int, int]], found: npt.NDArray[np.bool_]) -> None:
        utterance, frame = frames[int(found.argmax())]
        warn(InputWarning(f"{self._name}: expected logits, got {got}", f": {why}", utterance=utterance, frame=frame))


def _three_of(frames: int) -> list[int]:
    """The first, the middle and the last of some frames."""
    return sorted({0, frames // 2, frames - 1})


def named(tokens: Any, column: int) -> str:
    """A column, and its token if there are tokens."""
    return f"column {column}" if tokens is None else f"column {column} ({tokens[column]!r})"


class TimeFirstCheck:
    """Looks at the first suspicious batch of a decoder: frames of speech that follow each other are alike."""

    def __init__(self, name: str, axis: str) -> None:
        self._name, self._axis = name, axis
        self._is_done = False

    def __call__(self, batch: Any, lengths: Any) -> None:
        """Warns of an array in host memory that has more utterances than frames, if these seem to be each other.

        They seem so if neighbours are alike, or if all utterances have one frame.

        With lengths there is one for each utterance, so that the axes cannot be confused.
        """
        if self._is_done or lengths is not None or not isinstance(batch, np.ndarray) or batch.ndim != 3:
            return
        if not has_more_utterances_than_frames(batch):
            return
        self._is_done = True
        if why := why_time_first(batch):
            warn(
                f"{self._name}: expected [batch, frames, {self._axis}], got {list(batch.shape)}, {why}: is it [frames, "
                f"batch, {self._axis}]? Transpose it, as in {self._name}.transpose(1, 0, 2)"
            )
