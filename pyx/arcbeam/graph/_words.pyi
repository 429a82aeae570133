from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import OpenGraph

_Word = TypeVar("_Word")

class WordReader:
    def __init__(self, graph: Graph | OpenGraph) -> None: ...
    def text(self, arcs: npt.NDArray[np.uint32]) -> str: ...
    def words(
        self,
        arcs: npt.NDArray[np.uint32],
        frame_shift: float | None,
        word: Callable[[str, int, int, float | None, float | None, float | None], _Word],
        confidences: npt.NDArray[np.float64] | None = None,
    ) -> list[_Word]: ...
    def text_of_labels(self, labels: npt.NDArray[np.uint32]) -> str: ...
    def words_of_labels(
        self,
        labels: npt.NDArray[np.uint32],
        starts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
        frame_shift: float | None,
        word: Callable[[str, int, int, float | None, float | None, float | None], _Word],
    ) -> list[_Word]: ...
    def num_stable(self, arcs: npt.NDArray[np.uint32]) -> int: ...
    def tokens(
        self, arcs: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...

class GrowingPath:
    def __init__(self, open_reader: Callable[[], WordReader], arcs: npt.NDArray[np.uint32] | None = None) -> None: ...
    def __len__(self) -> int: ...
    def arcs(self, count: int, rest: npt.NDArray[np.uint32] | None = None) -> npt.NDArray[np.uint32]: ...
    def text(self, count: int, rest: npt.NDArray[np.uint32]) -> str: ...
    def stable(self, count: int) -> tuple[int, str]: ...
