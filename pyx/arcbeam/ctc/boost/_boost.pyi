import numpy as np
import numpy.typing as npt

from arcbeam.ctc.boost.phrases import Phrases
from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import NewWords, OpenGraph
from arcbeam.graph.symbols import SymbolTable

STATE: np.dtype[np.void]
ARC: np.dtype[np.void]

class WordIndex:
    def __init__(self, symbols: SymbolTable, words: npt.NDArray[np.uint32]) -> None: ...
    def __contains__(self, word: str, /) -> bool: ...

class Column: ...

class BoostList:
    is_known: npt.NDArray[np.uint8]
    all_known: bool
    largest: float
    new_words: NewWords | None
    @property
    def states(self) -> npt.NDArray[np.void]: ...
    @property
    def arcs(self) -> npt.NDArray[np.void]: ...

def are_plain(lines: str, count: int) -> bool: ...
def rounded(scores: list[object], largest: float) -> list[float] | None: ...
def compiled(
    index: WordIndex,
    phrases: list[Phrases],
    depth_scalings: list[float],
    new_words: list[NewWords | None],
    threads: int,
) -> list[BoostList]: ...
def boost_cost(graph: Graph | OpenGraph, boost: BoostList, arcs: npt.NDArray[np.uint32]) -> float: ...
