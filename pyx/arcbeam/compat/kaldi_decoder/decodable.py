"""The log-probs of an utterance, as the decoders read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.compat.tensors import on_host


class DecodableInterface(ABC):
    """What the decoders read. Their `decode` takes a :class:`DecodableCtc`."""

    @abstractmethod
    def num_frames_ready(self) -> int:
        """The frames that can be read, counted from the beginning of the utterance."""

    @abstractmethod
    def num_indices(self) -> int:
        """The number of input labels."""

    @abstractmethod
    def is_last_frame(self, frame: int) -> bool:
        """Whether this is the last frame that can be read."""

    @abstractmethod
    def log_likelihood(self, frame: int, index: int) -> float:
        """The log-prob of an input label in a frame; labels count from 1."""


class DecodableCtc(DecodableInterface):
    """Log-probs of CTC, of which it keeps a copy.

    Parameters
    ----------
    feats : array [frames, columns]
        Natural-log probabilities, of NumPy or of torch; rounded to float32. Input label l of the graph reads
        column l - 1.
    offset : int
        The frames of the utterance before the first of `feats`, for one that arrives in chunks.

    Raises
    ------
    ValueError
        Other dimensions than two; an offset below 0.
    """

    def __init__(self, feats: Any, offset: int = 0) -> None:
        values = np.array(on_host(feats), np.float32, order="C")
        if values.ndim != 2:
            raise ValueError(f"feats: expected two dimensions, frames and columns, got {values.ndim}")
        if offset < 0:
            raise ValueError(f"offset: expected a number of frames of at least 0, got {offset}")
        self._values, self._offset = values, int(offset)

    def num_frames_ready(self) -> int:
        """The frames of the utterance up to the last of `feats`."""
        return self._offset + len(self._values)

    def num_indices(self) -> int:
        """The number of columns."""
        return int(self._values.shape[1])

    def is_last_frame(self, frame: int) -> bool:
        """Whether this is the last frame of `feats`; IndexError for one after it."""
        if frame >= self.num_frames_ready():
            raise IndexError(f"frame: expected less than {self.num_frames_ready()}, got {frame}")
        return frame == self.num_frames_ready() - 1

    def log_likelihood(self, frame: int, index: int) -> float:
        """The log-prob of an input label, which count from 1, in a frame of the utterance; IndexError without one."""
        if not 1 <= index <= self.num_indices():
            raise IndexError(f"index: expected an input label from 1 to {self.num_indices()}, got {index}")
        return float(self.frames(frame, frame + 1)[0, index - 1])

    def frames(self, begin: int, end: int) -> npt.NDArray[np.float32]:
        """float32[frames, columns]: the frames [begin, end) of the utterance; IndexError if one is not there."""
        if not self._offset <= begin <= end <= self.num_frames_ready():
            raise IndexError(
                f"frame: expected frames from {self._offset} to less than {self.num_frames_ready()}, got {begin} to "
                f"{end - 1}; the offset of a DecodableCtc is the number of frames before it"
            )
        return self._values[begin - self._offset : end - self._offset]
