import numpy as np
import numpy.typing as npt

from arcbeam.ctc.boost._boost import BoostList
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.rescoring import Rescoring
from arcbeam.ctc.streams.sentences import LmContext
from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import OpenGraph

STEP_LIMIT: int

def deviations(
    graph: Graph | OpenGraph, rescoring: Rescoring, lattices: Lattices, index: int, lm_context: LmContext | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...
def rescore(
    graph: Graph | OpenGraph,
    rescoring: Rescoring,
    lattices: Lattices,
    index: int,
    beam: float,
    *,
    step_limit: int = ...,
) -> tuple[Lattices, bool]: ...
def boosts(
    graph: Graph | OpenGraph, boost: BoostList, lattices: Lattices, index: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...
