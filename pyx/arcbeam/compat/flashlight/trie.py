"""The lexicon that a decoder gets: spellings, their labels and scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from arcbeam.compat.flashlight.options import SmearingMode


class Trie:
    """Spellings of words, as columns.

    Parameters
    ----------
    max_children : int
        The number of columns.
    root_idx : int
        The silence's column; a decoder warns if it has this one as its blank.
    """

    def __init__(self, max_children: int, root_idx: int) -> None:
        self.max_children, self.root_idx, self.smearing = int(max_children), int(root_idx), SmearingMode.NONE
        self._columns: list[int] = []
        self._ends: list[int] = [0]
        self._labels: list[int] = []
        self._scores: list[float] = []

    def insert(self, indices: Sequence[int], label: int, score: float) -> None:
        """Adds a spelling.

        Parameters
        ----------
        indices : sequence of int
            Its columns, at least one.
        label : int
            The word's index, of any number of spellings.
        score : float
            The language model's score of the word, which smearing uses.

        Raises
        ------
        IndexError
            A column that is not there.
        ValueError
            No columns.
        """
        if len(indices) == 0:
            raise ValueError(f"indices: expected columns, got none for the label {label}")
        for column in indices:
            if not 0 <= column < self.max_children:
                raise IndexError(f"indices: expected columns from 0 to {self.max_children - 1}, got {column}")
        self._columns.extend(indices)
        self._ends.append(len(self._columns))
        self._labels.append(int(label))
        self._scores.append(float(score))

    def smear(self, mode: SmearingMode) -> None:
        """Gives words in progress the scores of the words that begin so."""
        self.smearing = SmearingMode(mode)

    def __len__(self) -> int:
        return len(self._labels)

    def labels(self) -> list[int]:
        """The labels, each once, ascending."""
        return sorted(set(self._labels))

    def spellings(
        self, numbers: dict[int, int]
    ) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.float32]]:
        """Columns, offsets, labels and scores as the engine takes them; `numbers` are those of the labels."""
        return (
            np.array(self._columns, np.uint16),
            np.array(self._ends, np.uint32),
            np.array([numbers[label] for label in self._labels], np.uint32),
            np.array(self._scores, np.float32),
        )
