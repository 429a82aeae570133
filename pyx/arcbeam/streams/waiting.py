"""Frames after the end of a sentence, which wait until the next one begins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

PIECE = 256  # frames that are decoded together: those after an end are read again for the next sentence


class Waiting(NamedTuple):
    """Frames of one chunk."""

    rows: npt.NDArray[np.float32]  # float32[frames, columns]
    confidences: npt.NDArray[np.float32] | None = None  # float32[frames]; None where they are not needed

    def pieces(self) -> list[Waiting]:
        """The frames in pieces that are decoded one after the other."""
        rows, found = self
        starts = range(0, len(rows), PIECE)
        return [Waiting(rows[at : at + PIECE], None if found is None else found[at : at + PIECE]) for at in starts]
