from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from arcbeam.graph.graph import Graph

_Word = TypeVar("_Word")

class WordReader:
    def __init__(self, graph: Graph) -> None: ...
    def text(self, arcs: npt.NDArray[np.uint32]) -> str: ...
    def words(
        self,
        arcs: npt.NDArray[np.uint32],
        frame_shift: float | None,
        word: Callable[[str, int, int, float | None, float | None], _Word],
    ) -> list[_Word]: ...
