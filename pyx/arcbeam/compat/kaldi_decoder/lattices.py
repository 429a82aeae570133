"""Paths and lattices as kaldifst has them: each weight is a cost of the graph and one of the log-probs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from arcbeam.core.packages import missing_package
from arcbeam.graph.openfst import input_labels

if TYPE_CHECKING:
    from arcbeam.ctc.lattice.lattice import Lattice


class Arc(NamedTuple):
    """An arc of a path: its labels, 0 for none, and its costs."""

    ilabel: int
    olabel: int
    graph_cost: float
    acoustic_cost: float


def kaldifst() -> Any:
    """The package; MissingDependencyError without it."""
    try:
        import kaldifst as module
    except ModuleNotFoundError:
        raise missing_package("kaldifst", "arcbeam.compat.kaldi_decoder") from None
    return module


def without_epsilons(path: Sequence[Arc], final_cost: float) -> tuple[list[Arc], float]:
    """The path with each arc merged into the one before where no label is lost, and the cost of its end."""
    merged: list[Arc] = []
    for arc in path:
        before = merged[-1] if merged else None
        if before is None or (before.ilabel and arc.ilabel) or (before.olabel and arc.olabel):
            merged.append(arc)
            continue
        merged[-1] = Arc(
            before.ilabel or arc.ilabel,
            before.olabel or arc.olabel,
            before.graph_cost + arc.graph_cost,
            before.acoustic_cost + arc.acoustic_cost,
        )
    if merged and not merged[-1].ilabel and not merged[-1].olabel:
        final_cost += merged.pop().graph_cost
    return merged, final_cost


def linear_lattice(path: Sequence[Arc], final_cost: float) -> Any:
    """A ``kaldifst.Lattice`` of one path."""
    module = kaldifst()
    made = module.Lattice()
    made.start = state = made.add_state()
    for arc in path:
        following = made.add_state()
        weight = module.LatticeWeight(arc.graph_cost, arc.acoustic_cost)
        made.add_arc(state, module.LatticeArc(arc.ilabel, arc.olabel, weight, following))
        state = following
    made.set_final(state, module.LatticeWeight(final_cost, 0.0))
    return made


def raw_lattice(lattice: Lattice) -> Any:
    """A ``kaldifst.Lattice`` of all links; its states are the tokens, from the start on."""
    module = kaldifst()
    made = module.Lattice()
    for _ in range(lattice.num_tokens):
        made.add_state()
    made.start = 0
    links = lattice.links
    labels = input_labels(lattice.columns)
    costs = 0.0 - lattice.graph_scores, 0.0 - lattice.acoustic_scores
    arrays = links["source"], labels, lattice.words, *costs, links["target"]
    for source, label, word, graph_cost, acoustic_cost, target in zip(*(v.tolist() for v in arrays), strict=True):
        weight = module.LatticeWeight(graph_cost, acoustic_cost)
        made.add_arc(source, module.LatticeArc(label, word, weight, target))
    ends = np.flatnonzero(np.isfinite(lattice.final_scores))
    for token, cost in zip(ends.tolist(), (0.0 - lattice.final_graph_scores[ends]).tolist(), strict=True):
        made.set_final(token, module.LatticeWeight(cost, 0.0))
    return made
