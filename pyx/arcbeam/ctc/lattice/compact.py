"""Compact lattices rescored and searched: each is the lattice of a graph whose arcs are its own and read no frame."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from arcbeam.core.warn import warn
from arcbeam.ctc.lattice._lattice import nbest, posteriors
from arcbeam.ctc.lattice._lattice_scores import deviations, rescore
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.lattice.from_arcs import Arcs, lattice_of_arcs
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import LargeModel, Rescoring
from arcbeam.graph.graph import Graph
from arcbeam.lattices.compact_lattice import CompactLattice, picked
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
    silent = np.zeros(lattice.num_arcs, np.int64)
    sources, targets, words = (arcs[name].astype(np.int64) for name in ("source", "target", "word"))
    arc_costs, final_costs = lattice.costs(acoustic_scale)
    return lattice_of_arcs(
        Arcs(sources, targets, silent, words, arc_costs, silent.astype(np.float32)),
        np.zeros(lattice.num_states, np.int64),
        final_costs,
        start=max(lattice.start, 0),
        num_columns=1,
        word_symbols=lattice.word_symbols,
        meta=meta,
    )
