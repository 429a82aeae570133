"""The recipe's operations in kaldifst, one function each. Inputs are consumed if that saves memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.core.packages import require
from arcbeam.recipe.arrays import ArcArrays

if TYPE_CHECKING:
    from arcbeam.graph.openfst import Compiled


def _kaldifst() -> Any:
    return require("kaldifst", "building a decoding graph")


def compose(left: Any, right: Any) -> Any:
    """Compose left o right; epsilons of `left` come before those of `right`. `left` is sorted by output label here."""
    kaldifst = _kaldifst()
    kaldifst.arcsort(left, sort_type="olabel")
    return kaldifst.compose(left, right, match_side="left", compose_filter="sequence", connect=True)


def determinize_and_minimize(fst: Any, reporter: Any) -> Any:
    """Kaldi's determinize-star in the log semiring, then encoded minimization."""
    kaldifst = _kaldifst()
    reporter.begin("determinize", "determinizing L o G")
    kaldifst.determinize_star(fst, use_log=True)
    reporter.say("determinize", f"{fst.num_states:,} states")
    reporter.begin("minimize", "minimizing L o G")
    kaldifst.minimize_encoded(fst)
    reporter.say("minimize", f"{fst.num_states:,} states")
    return fst


def topology_reader(topology: ArcArrays, unmark: ArcArrays) -> Any:
    """T that writes marked tokens and #0 in addition to plain tokens."""
    # The composition puts T's own epsilons before #0, so a back-off comes as late as possible: after the last frame of
    # a token. No blank loop lies in between, which would keep backed-off tokens alive from frame to frame.
    kaldifst = _kaldifst()
    right = unmark.to_kaldifst()
    kaldifst.arcsort(right, sort_type="ilabel")
    return compose(topology.to_kaldifst(), right)


def check_available() -> None:
    """Raise MissingDependencyError now, rather than after minutes of reading."""
    _kaldifst()


def remove_epsilons(fst: Any) -> Any:
    """Remove the arcs that neither read nor write a label."""
    _kaldifst().rmepsilon(fst)
    return fst


def arcs_without_epsilons(graph: Compiled) -> int:
    """At most how many arcs remain once epsilons are removed; arcs that coincide are counted twice."""
    states, num_states = graph.columns["states"], len(graph.columns["finals"])
    first = states["first_arc"].astype(np.int64)
    first_emitting = states["first_emitting"][:-1].astype(np.int64)
    emitting = (first[1:] - first_emitting).astype(np.float64)
    depth = states["depth"][:-1]
    sources = np.repeat(np.arange(num_states), first_emitting - first[:-1])
    arcs = np.flatnonzero(graph.columns["columns"] == 0xFFFF)
    targets = graph.columns["targets"]["next_state"][arcs]
    for level in range(graph.max_depth - 1, -1, -1):  # a target is always deeper, so it is complete
        here = depth[sources] == level
        emitting += np.bincount(sources[here], emitting[targets[here]], minlength=num_states)
    return int(emitting.sum())
