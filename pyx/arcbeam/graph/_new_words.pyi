from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

class SpelledWords:
    @staticmethod
    def from_lists(words: list[Sequence[Sequence[int]]]) -> SpelledWords: ...
    @staticmethod
    def gathered(places: list[tuple[SpelledWords, int]]) -> SpelledWords: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def of(self, word: int) -> list[tuple[int, ...]]: ...
    def arrays(
        self, first_word: int
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.uint16]]: ...

class Pieces:
    def __init__(self, columns: dict[str, int]) -> None: ...
    def spelled(self, texts: list[str], most: int, max_bytes: int) -> tuple[SpelledWords | None, dict[int, str]]: ...

class Tree:
    def __new__(
        cls, spelled: SpelledWords, first_word: int, blank: int | None, loops: bool, repeats_need_blank: bool
    ) -> Self: ...
    def nbytes(self, copies: int, entering: int) -> int: ...
    def copies(
        self,
        first_state: int,
        first_arc: int,
        exits: npt.NDArray[np.uint32],
        depths: npt.NDArray[np.uint32],
        entering: int,
    ) -> tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[Any],
        npt.NDArray[Any],
        npt.NDArray[np.uint16],
        npt.NDArray[np.uint32],
        npt.NDArray[np.float32],
    ]: ...
