"""Whether the axes of a batch seem to be in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

SAMPLE = (64, 8)  # neighbours along the two axes
LEAST, LOWEST = 16, -20.0  # of the first axis; values below this, such as -inf, are all the same
ALIKE = 0.75  # of time first 0.1 to 0.6 on speech, of random values 1, of short utterances from 1.5 on


def has_more_utterances_than_frames(batch: npt.NDArray[Any]) -> bool:
    """Whether a batch [batch, frames, columns] has so many more that it may be [frames, batch, columns]."""
    return len(batch) > max(batch.shape[1], LEAST) and batch.shape[1] >= 1


def why_time_first(batch: npt.NDArray[Any]) -> str:
    """Why the frames of such a batch seem to be its first axis, as a message says it; empty if they do not."""
    if batch.shape[1] == 1:
        return "which are utterances of one frame"
    return "in which neighbours along the first axis are alike, as frames are" if _are_frames(batch) else ""


def _are_frames(batch: npt.NDArray[Any]) -> bool:
    """Whether neighbours along the first axis of [first, second, columns] are more alike than along the second."""
    begin = (len(batch) - min(len(batch), SAMPLE[0])) // 2
    sample = np.maximum(batch[begin : begin + SAMPLE[0], : SAMPLE[1]].astype(np.float32), LOWEST)
    with np.errstate(all="ignore"):  # NaN and infinities, which the engine refuses
        along, across = (float(np.abs(np.diff(sample, axis=axis)).mean()) for axis in (0, 1))
    return 0.0 < along < ALIKE * across
