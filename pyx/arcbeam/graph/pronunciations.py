"""How the words of a graph are written in tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import GraphError


@dataclass(frozen=True)
class Pronunciations:
    """How words are written in tokens; used to find where in time a word begins and ends."""

    words: npt.NDArray[np.uint32]  # [P] output labels; a word may have several pronunciations
    offsets: npt.NDArray[np.uint32]  # [P + 1]
    columns: npt.NDArray[np.uint16]  # [offsets[P]]

    @classmethod
    def from_lists(cls, spellings: Iterable[tuple[int, Sequence[int]]]) -> Self:
        """Pronunciations from pairs of an output label and its columns."""
        pairs = list(spellings)
        offsets = np.zeros(len(pairs) + 1, "<u4")
        np.cumsum([len(columns) for _, columns in pairs], out=offsets[1:])
        return cls(
            np.array([word for word, _ in pairs], "<u4"),
            offsets,
            np.array([column for _, columns in pairs for column in columns], "<u2"),
        )

    def of(self, word: int) -> list[list[int]]:
        """The pronunciations of an output label, as lists of columns, in the order of the table."""
        order, sorted_words = self.by_word
        key = np.uint32(word)  # a key of another type would have the whole array converted
        first, last = (int(np.searchsorted(sorted_words, key, side)) for side in ("left", "right"))
        return [
            self.columns[int(self.offsets[p]) : int(self.offsets[p + 1])].tolist() for p in order[first:last].tolist()
        ]

    @cached_property
    def by_word(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """The order that sorts pronunciations by their words, and the words in that order."""
        order = np.argsort(self.words, kind="stable").astype(np.int64)
        return order, self.words[order]

    def check(self, num_columns: int) -> None:
        """GraphError unless the arrays agree with each other and with the number of columns."""
        for name, dtype in (("words", "<u4"), ("offsets", "<u4"), ("columns", "<u2")):
            array = getattr(self, name)
            if array.dtype != np.dtype(dtype) or array.ndim != 1:
                raise GraphError(f"pronunciations.{name}: expected {dtype}, one axis, got {array.dtype} {array.shape}")
        offsets = self.offsets
        if len(offsets) != len(self.words) + 1 or offsets[0] != 0 or offsets[-1] != len(self.columns):
            raise GraphError(
                f"pronunciations: {len(self.words)} words, {len(offsets)} offsets up to "
                f"{offsets[-1] if len(offsets) else None}, {len(self.columns)} columns do not fit"
            )
        if np.any(offsets[1:] < offsets[:-1]):
            raise GraphError(f"pronunciation {int(np.argmax(offsets[1:] < offsets[:-1]))} ends before it begins")
        if len(self.columns) and int(self.columns.max()) >= num_columns:
            raise GraphError(f"pronunciations read column {int(self.columns.max())}, but there are {num_columns}")
