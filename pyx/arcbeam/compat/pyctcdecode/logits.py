"""From logits to the tokens that the search reads, with NumPy's own arithmetic, as in pyctcdecode."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.core.errors import InputError
from arcbeam.core.warn import warn

if TYPE_CHECKING:
    import numpy.typing as npt

LEAST = 1e-15  # a probability that is never undercut


def tokens_of(
    logits: Any, columns: int, token_min_logp: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.float64]]:
    """(offsets int64[frames + 1], columns uint32[], log-probs float64[]) of the likely tokens of each frame.

    InputError or TypeError for logits that cannot be decoded, and a warning if the last frame seems to be padding.
    """
    array = np.asarray(logits)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"logits: expected numbers, got {array.dtype}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    if array.ndim != 2:
        raise InputError("logits", f"expected two dimensions, frames and columns, got {array.ndim}")
    if array.shape[1] != columns:
        raise InputError(
            "logits",
            f"expected {columns} columns, one for each label, got {array.shape[1]}",
            "are they [columns, frames]? transpose them to [frames, columns]"
            if array.shape[0] == columns
            else "without a label for the blank ('', '_', '<pad>' or '[PAD]'), one is added as the last column",
        )
    if not len(array):
        return np.zeros(1, np.int64), np.empty(0, np.uint32), np.empty(0, np.float64)
    with np.errstate(all="ignore"):
        if math.isclose(array.sum(axis=1).mean(), 1):
            log_probs = np.log(np.clip(array, LEAST, 1))
        else:
            log_probs = _log_softmax(array)
    if columns > 1 and (array[-1] == array[-1, 0]).all():
        warn(
            "logits: all columns of the last frame are equal: is it padding, which is decoded as speech? Give each "
            "utterance without it, as in [logits[i, : lengths[i]] for i in range(len(logits))]"
        )
    likely = log_probs >= token_min_logp
    likely[np.arange(len(likely)), log_probs.argmax(axis=1)] = True
    places = np.flatnonzero(likely)
    offsets = np.searchsorted(places, np.arange(len(likely) + 1) * columns)
    values = np.clip(log_probs.reshape(-1)[places], np.log(LEAST).astype(array.dtype), 0)
    return offsets.astype(np.int64), (places % columns).astype(np.uint32), values.astype(np.float64)


def _log_softmax(array: Any) -> Any:
    """The log-softmax; InputError for a frame that has none."""
    most = array.max(axis=1, keepdims=True)
    shifted = array - np.where(np.isfinite(most), most, 0)
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    np.log(total, out=total)
    if not (good := np.isfinite(total)).all():
        frame = int(np.flatnonzero(~good)[0])
        column = int(array[frame].argmax())  # NaN wins
        reason = f"expected finite values, and not -inf in all columns, got {array[frame, column]}"
        raise InputError("logits", reason, frame=frame, column=column)
    return np.subtract(shifted, total, out=shifted)
