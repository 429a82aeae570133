"""Compact lattices rescored and searched: each is the lattice of a graph whose arcs are its own and read no frame."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from arcbeam.core.warn import warn
from arcbeam.ctc.lattice._lattice import nbest, posteriors
from arcbeam.ctc.lattice._lattice_scores import deviations, rescore
from arcbeam.ctc.lattice._lattices import LINK, Lattices
from arcbeam.ctc.lattice.best_paths import best_path, best_to_states
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import LargeModel, Rescoring
from arcbeam.graph.graph import Graph
from arcbeam.lattices.compact_lattice import CompactLattice, Floats, picked
from arcbeam.lattices.word_graph import WordGraph, word_graph
from arcbeam.lm.language_model import LanguageModel

Kind = TypeVar("Kind", bound=CompactLattice)


class WordPath(NamedTuple):
    """A path through a compact lattice."""

    arcs: list[int]
    end: int  # state


def rescored(
    lattice: Kind, large: LargeModel, small: LanguageModel, options: DecoderOptions, acoustic_scale: float
) -> Kind:
    """The lattice with a large model's scores in place of those of `small`; its arcs lead to larger states."""
    if not lattice.num_states:
        return lattice
    meta = {"lm_digest": small.digest, "lm_scale": options.graph_lm_scale or 0.0}
    graph, lattices = as_lattice(lattice, acoustic_scale, **meta)
    rescoring = Rescoring(graph, large, small, options)
    found, truncated = rescore(graph, rescoring, lattices, 0, options.lattice_beam)
    if truncated:
        warn(
            "rescore: the lattice has more than 2**25 pairs of arcs and histories, so a better path may have been "
            "missed; determinize it with a smaller beam first"
        )
    arrays: dict[str, Any] = found.arrays(0)
    if not len(arrays["states"]):
        return lattice
    of_links, of_ends = deviations(graph, rescoring, found, 0)
    links, states = arrays["links"], arrays["states"]
    arcs, finals = lattice.arcs[links["arc"]], lattice.finals[states]
    arcs["source"], arcs["target"] = links["source"], links["target"]
    arcs["graph_cost"] += of_links
    is_end = np.isfinite(arrays["end_extras"])
    finals["graph_cost"][is_end] += of_ends[is_end]
    finals["graph_cost"][~is_end] = finals["acoustic_cost"][~is_end] = np.inf
    labels, begins = picked(lattice.final_labels, lattice.final_label_begins, states[is_end])
    lengths = np.zeros(len(states), np.int64)
    lengths[is_end] = np.diff(begins)
    return type(lattice)(
        0,
        arcs,
        *picked(lattice.labels, lattice.label_begins, links["arc"]),
        finals,
        labels,
        np.append(0, np.cumsum(lengths)).astype(np.int64),
        word_symbols=lattice.word_symbols,
    )


def best_distinct(lattice: CompactLattice, n: int, acoustic_scale: float) -> list[WordPath]:
    """The n best distinct word sequences, each with its best path; arcs of the lattice lead to larger states."""
    if not lattice.num_states:
        return []
    _, lattices = as_lattice(lattice, acoustic_scale)
    arrays: dict[str, Any] = lattices.arrays(0)
    links = arrays["links"]
    if not len(arrays["states"]):
        return []
    found = nbest(lattices, 0, lattice.arcs["word"][links["arc"]].astype(np.uint32), n)
    bounds = found.first_link.tolist()
    paths = [found.links[begin:end] for begin, end in pairwise(bounds)]
    ends = [arrays["states"].item(links["target"][path[-1]] if len(path) else 0) for path in paths]
    return [WordPath(links["arc"][path].tolist(), end) for path, end in zip(paths, ends, strict=True)]


def words_over_time(lattice: CompactLattice, acoustic_scale: float, least: float) -> WordGraph:
    """What a picture shows of a lattice with states, with posteriors of at least `least`, by the scale of decoders."""
    lattice = lattice.ordered()
    _, lattices = as_lattice(lattice, acoustic_scale)
    arrays: dict[str, Any] = lattices.arrays(0)
    links, states = arrays["links"], arrays["states"]
    scale = DecoderOptions(acoustic_scale=acoustic_scale).scale
    frames = np.zeros(lattice.num_states, np.int32)  # before each state; all paths to it read as many
    lengths = np.diff(lattice.label_begins).tolist()
    for source, target, length in zip(
        *(lattice.arcs[end].tolist() for end in ("source", "target")), lengths, strict=True
    ):
        frames[target] = frames[source] + length
    return word_graph(
        links, lattice.arcs["word"][links["arc"]].astype(np.uint32), frames[states],
        posteriors(lattices, 0, scale=scale).links, arrays["best"], least,
    )  # fmt: skip


def as_lattice(lattice: CompactLattice, acoustic_scale: float = 1.0, **meta: Any) -> tuple[Graph, Lattices]:
    """A compact lattice with states, whose arcs lead to larger ones, as a graph and one lattice of its arcs."""
    # The costs of the graph are not read: those of the lattice are.
    arcs = lattice.arcs
    silent = np.zeros(lattice.num_arcs, np.int32)
    graph = Graph.from_arcs(
        [arcs["source"], arcs["target"], silent, arcs["word"], silent.astype(np.float32)],
        start=max(lattice.start, 0),
        finals=np.where(np.isfinite(lattice.finals["graph_cost"]), np.float32(0), np.float32(np.inf)),
        num_states=lattice.num_states,
        num_columns=1,
        word_symbols=lattice.word_symbols,
        meta=meta,
    )
    return graph, Lattices.of_arrays([_arrays(lattice, graph, *lattice.costs(acoustic_scale))])


def _arrays(lattice: CompactLattice, graph: Graph, arc_costs: Floats, final_costs: Floats) -> dict[str, Any]:
    """The lattice that a search finds in the graph before the first frame, if nothing is dropped (law 8)."""
    sources, targets = (lattice.arcs[end].astype(np.int64) for end in ("source", "target"))
    best = best_to_states(lattice.start, sources, targets, arc_costs, lattice.num_states)
    rest = _best_to_ends(final_costs, sources, targets, arc_costs)
    states = np.flatnonzero(np.isfinite(best) & np.isfinite(rest))
    states = states[np.lexsort((states, graph.states["depth"][states]))]
    numbers = np.full(lattice.num_states, -1)
    numbers[states] = np.arange(len(states))
    kept = np.flatnonzero((numbers[sources] >= 0) & (numbers[targets] >= 0))
    kept = kept[np.lexsort((kept, numbers[sources[kept]]))]
    links = np.empty(len(kept), LINK)
    links["source"], links["target"], links["arc"] = numbers[sources[kept]], numbers[targets[kept]], kept
    links["slack"] = (best[sources[kept]] + arc_costs[kept]) - best[targets[kept]]
    ends = best[states] + final_costs[states]
    total = float(ends.min(initial=np.inf))
    return {
        "first_token": [0, len(states)] if len(states) else [],
        "states": states,
        "costs": best[states],
        "links": links,
        "first_link": np.searchsorted(links["source"], np.arange(len(states) + 1)) if len(states) else [],
        "end_extras": ends - total if len(states) else [],
        "best": best_path(links, int(np.argmin(ends)) if len(states) else 0),
        "total_cost": total,
        "reached_final": True,
        "complete": True,
    }


def _best_to_ends(
    final_costs: Floats, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], costs: Floats
) -> Floats:
    """The cost of the best path from each state to an end."""
    rest = final_costs.tolist()
    arcs = zip(sources.tolist(), targets.tolist(), costs.tolist(), strict=True)
    for source, target, cost in reversed(list(arcs)):
        rest[source] = min(rest[source], cost + rest[target])
    return np.array(rest)
