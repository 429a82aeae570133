"""The engine of a decoder over graphs: the CPU's, or a GPU's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from arcbeam.arrays.engine import Bad, Engine
from arcbeam.core.threads import usable_cores
from arcbeam.ctc.cpu._decode import CpuEngine

if TYPE_CHECKING:
    from arcbeam.ctc.boost._boost import BoostList
    from arcbeam.ctc.lattice._lattice import AnswerEngine
    from arcbeam.ctc.options import DecoderOptions
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.ctc.streams._rounds import SearchState
    from arcbeam.ctc.streams.endpoint import EndpointRules
    from arcbeam.ctc.streams.sentences import LmContext, SavedSearch
    from arcbeam.graph.graph import Graph

# Token-log entries (8 bytes each) that a lane gathers before it first drops what no token descends from; with lattices,
# entries and links (12 and 16 bytes each).
COLLECT_ABOVE = 1 << 22


class SearchEngine(Engine[..., tuple[tuple[Any, ...], dict[str, Any], list[Bad]]], Protocol):
    """An engine that also decodes the chunks of streams."""

    def new_stream(
        self,
        boost: BoostList | None = None,
        rules: EndpointRules | None = None,
        lm_context: LmContext | None = None,
        saved: SavedSearch | None = None,
        lattice_beam: float | None = None,
    ) -> SearchState:
        """A sentence of a stream, from its beginning or from a saved state."""
        ...


def make_engine(
    graph: Graph,
    options: DecoderOptions,
    rescoring: Rescoring | None,
    ordinal: int | None,
    answers: AnswerEngine,
) -> SearchEngine:
    """The engine of the GPU with this number, which makes lattices on the threads of `answers`; None: of the CPU."""
    return _cpu(graph, options, rescoring) if ordinal is None else _cuda(graph, options, rescoring, ordinal, answers)


def _cpu(graph: Graph, options: DecoderOptions, rescoring: Rescoring | None) -> SearchEngine:
    threads = options.threads or usable_cores()
    return CpuEngine(graph, options, threads=threads, collect_above=COLLECT_ABOVE, rescoring=rescoring)


def _cuda(
    graph: Graph, options: DecoderOptions, rescoring: Rescoring | None, ordinal: int, answers: AnswerEngine
) -> SearchEngine:
    from arcbeam.ctc.gpu.engine._search_engine import CudaEngine
    from arcbeam.gpu.tuned.search_plan import gathering_threads, lookup_threads

    of_kenlm = rescoring is not None and rescoring.kenlm is not None
    return CudaEngine(
        graph,
        ordinal,
        options,
        answers,
        threads=options.threads or gathering_threads(usable_cores()),
        lookup_threads=options.threads or lookup_threads(usable_cores(), of_kenlm=of_kenlm),
        rescoring=rescoring,
    )
