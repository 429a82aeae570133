"""How sure a model is of frames, and of the labels and words that a path makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core._confidence import aggregated
from arcbeam.words import Word

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class Label(NamedTuple):
    """One label of a path: what the model has put out, repeats and blanks taken out.

    Attributes
    ----------
    label : str
        Its name; the column if the graph has no tokens.
    start_frame, end_frame : int
        Frames ``[start_frame, end_frame)`` that read it; with a stream, counted from its beginning.
    start, end : float or None
        These times in seconds; None if the decoder was given no ``frame_shift``.
    confidence : float
        Made of those of its frames, in [0, 1].
    """

    label: str
    start_frame: int
    end_frame: int
    start: float | None
    end: float | None
    confidence: float


@dataclass(frozen=True, eq=False)
class FrameConfidences:
    """The confidences of the frames of a batch: of utterance i ``values[first_frame[i]:first_frame[i + 1]]``."""

    values: Floats  # float32[frames]
    first_frame: Ints  # int64[batch + 1]
    aggregation: str

    def of(self, index: int) -> Floats:
        """float32[frames]: those of one utterance."""
        return self.values[slice(*self.first_frame[index : index + 2].tolist())]


class ChunkConfidences(NamedTuple):
    """The confidences of the frames of a round of chunks."""

    values: Floats  # float32[frames]
    begins: Ints  # int64[streams]: the place of each chunk's first frame; undefined where the stream has none


def of_words(words: list[Word], label_begins: Ints, of_labels: Floats, aggregation: str) -> Floats:
    """float32[words]: aggregated over the labels that begin within each word, in the same frames; 0 without any."""
    begins = np.searchsorted(label_begins, np.array([word.start_frame for word in words], np.int64))
    ends = np.searchsorted(label_begins, np.array([word.end_frame for word in words], np.int64))
    return aggregated(of_labels, begins.astype(np.int64), ends.astype(np.int64), aggregation)
