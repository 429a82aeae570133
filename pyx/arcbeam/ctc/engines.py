"""The engine of a decoder over graphs: the CPU's, or a GPU's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from arcbeam.arrays.intake import LogProbEngine
from arcbeam.ctc._decode import CpuEngine
from arcbeam.errors import CapacityError
from arcbeam.threads import usable_cores

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from arcbeam.ctc.options import DecoderOptions
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.graph.graph import Graph

    Path: TypeAlias = tuple[npt.NDArray[np.uint32], float, bool, bool]
    SearchEngine: TypeAlias = LogProbEngine[Path]

# Token-log entries (8 bytes each) that a lane gathers before it first drops what no token descends from.
COLLECT_ABOVE = 1 << 22


def make_engine(
    graph: Graph, options: DecoderOptions, rescoring: Rescoring | None, ordinal: int | None
) -> SearchEngine:
    """The engine of the GPU with this number, or of the CPU if it is None."""
    return _cpu(graph, options, rescoring) if ordinal is None else _cuda(graph, options, rescoring, ordinal)


def _cpu(graph: Graph, options: DecoderOptions, rescoring: Rescoring | None) -> SearchEngine:
    threads = options.threads or usable_cores()
    try:
        return CpuEngine(graph, options, threads=threads, collect_above=COLLECT_ABOVE, rescoring=rescoring)
    except RuntimeError as error:  # std::system_error: the machine gives no more
        raise CapacityError(f"threads: {threads} threads cannot be started ({error}); use fewer") from None


def _cuda(graph: Graph, options: DecoderOptions, rescoring: Rescoring | None, ordinal: int) -> SearchEngine:
    from arcbeam.ctc.gpu._search_engine import CudaEngine
    from arcbeam.gpu.tuned.search_plan import gathering_threads, lookup_threads

    more: dict[str, Any] = {}
    if rescoring is not None:
        of_kenlm = rescoring.kenlm is not None
        more = {
            "rescoring": rescoring,
            "hypotheses_per_state": options.hypotheses_per_state or 0,
            "placement": options.placement,
            "gpu_budget": options.gpu_budget,
            "arc_cache": options.arc_cache,
            "lookup_threads": options.threads or lookup_threads(usable_cores(), of_kenlm=of_kenlm),
        }
    return CudaEngine(
        graph,
        ordinal,
        beam=options.beam,
        max_active=options.max_active or 0,
        acoustic_scale=options.acoustic_scale,
        blank_penalty=options.blank_penalty,
        blank_column=-1 if graph.blank is None else graph.blank,
        memory_limit=int(options.memory_limit or 0),  # in bytes, after the check of the options
        threads=options.threads or gathering_threads(usable_cores()),
        **more,
    )
