from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.arrays._input_checks import InputChecks
from arcbeam.arrays._log_prob_engine import LogProbEngine
from arcbeam.ctc.boost._boost import BoostList
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from arcbeam.ctc.streams._rounds import SearchState
from arcbeam.ctc.streams.endpoint import EndpointRules
from arcbeam.ctc.streams.sentences import LmContext, SavedSearch
from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import OpenGraph

def graph_cost(graph: Graph | OpenGraph, arcs: npt.NDArray[np.uint32], reached_final: bool) -> float: ...
def rescoring_cost(
    graph: Graph | OpenGraph,
    rescoring: Rescoring,
    arcs: npt.NDArray[np.uint32],
    reached_final: bool,
    lm_context: LmContext | None = None,
) -> float: ...
def frames_along(
    sources: npt.NDArray[np.uint32], reads: npt.NDArray[np.uint8], first: int
) -> npt.NDArray[np.int64]: ...

class CpuStream(SearchState):
    frames: int
    has_begun: bool
    fired: int
    def __init__(
        self,
        boost: BoostList | None,
        rules: EndpointRules | None = None,
        lm_context: LmContext | None = None,
        saved: SavedSearch | None = None,
        lattice_beam: float | None = None,
    ) -> None: ...
    def search(self, with_lattice: bool = False) -> dict[str, Any]: ...

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
    def decode(
        self,
        utterances: npt.NDArray[np.int64],
        columns: int,
        on_host: bool = True,
        checks: InputChecks | None = None,
        lattice_beam: float | None = None,
        boosts: BoostList | Sequence[BoostList | None] | None = None,
        streams: Sequence[CpuStream] | None = None,
        last: Sequence[bool] | None = None,
        starts: npt.NDArray[np.integer[Any]] | None = None,
    ) -> tuple[Any, dict[str, int], list[tuple[int, ...]]]: ...
    def new_stream(
        self,
        boost: BoostList | None = None,
        rules: EndpointRules | None = None,
        lm_context: LmContext | None = None,
        saved: SavedSearch | None = None,
        lattice_beam: float | None = None,
    ) -> CpuStream: ...
