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
    def texts(
        self,
        settled: list[npt.NDArray[np.uint32]],
        arcs: npt.NDArray[np.uint32],
        begins: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
    ) -> list[str]: ...
    def words(
        self,
        arcs: npt.NDArray[np.uint32],
        frame_shift: float | None,
        word: Callable[[str, int, int, float | None, float | None, float | None], _Word],
        confidences: npt.NDArray[np.float64] | None = None,
    ) -> list[_Word]: ...
    def num_stable(self, arcs: npt.NDArray[np.uint32]) -> int: ...
    def tokens(
        self, arcs: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
