from typing import Self

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._log_prob_engine import LogProbEngine
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from arcbeam.graph.graph import Graph

def graph_cost(graph: Graph, arcs: npt.NDArray[np.uint32], reached_final: bool) -> float: ...
def rescoring_cost(graph: Graph, rescoring: Rescoring, arcs: npt.NDArray[np.uint32], reached_final: bool) -> float: ...

class CpuEngine(LogProbEngine):
    def __new__(
        cls,
        graph: Graph,
        options: DecoderOptions,
        *,
        threads: int,
        collect_above: int,
        rescoring: Rescoring | None = None,
    ) -> Self: ...
