from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from arcbeam.core._pooled_engine import PooledEngine
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.lattice.answers import LatticeAnswers, Mbr, Nbest, Oracle, Posteriors
from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import OpenGraph

STEP_LIMIT: int

class AnswerEngine(PooledEngine):
    def __new__(cls, graph: Graph, *, threads: int) -> Self: ...
    def cancel(self) -> None: ...
    def answers(
        self,
        lattices: Lattices,
        graphs: Sequence[Graph | OpenGraph] | None = None,
        *,
        nbest: int = 1,
        labels: bool = False,
        confidence: bool = False,
        mbr: bool = False,
        posterior_scale: float = 1.0,
        step_limit: int = ...,
    ) -> LatticeAnswers: ...

def link_words(lattices: Lattices, index: int, graph: Graph | OpenGraph) -> npt.NDArray[np.uint32]: ...
def posteriors(lattices: Lattices, index: int, *, scale: float = 1.0) -> Posteriors: ...
def nbest(
    lattices: Lattices,
    index: int,
    words: npt.NDArray[np.uint32],
    n: int,
    *,
    scale: float = 1.0,
    step_limit: int = ...,
) -> Nbest: ...
def confidences(
    lattices: Lattices, index: int, words: npt.NDArray[np.uint32], *, scale: float = 1.0, step_limit: int = ...
) -> tuple[npt.NDArray[np.float64], bool]: ...
def mbr(
    lattices: Lattices, index: int, words: npt.NDArray[np.uint32], *, scale: float = 1.0, step_limit: int = ...
) -> Mbr: ...
def prune(
    lattices: Lattices, index: int, beam: float
) -> tuple[Lattices, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]: ...
def oracle(
    lattices: Lattices, index: int, words: npt.NDArray[np.uint32], reference: npt.ArrayLike, *, room: int = ...
) -> Oracle: ...
