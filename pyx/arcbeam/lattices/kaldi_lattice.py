"""Kaldi's compact lattice: an acceptor of words, whose weights are two costs and the labels of the frames."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.show import shown_as
from arcbeam.graph.openfst import write_vector
from arcbeam.lattices.openfst_objects import read_back

ARC = np.dtype([("source", "<u4"), ("target", "<u4"), ("word", "<i4"), ("graph_cost", "<f4"), ("acoustic_cost", "<f4")])
FINAL = np.dtype([("graph_cost", "<f4"), ("acoustic_cost", "<f4")])


class KaldiPath(NamedTuple):
    """The best path of a lattice."""

    words: npt.NDArray[np.int32]  # int32[words], without epsilon
    labels: npt.NDArray[np.int32]  # int32[frames]: the strings of its arcs, joined
    graph_cost: float
    acoustic_cost: float


class KaldiLattice:
    """A compact lattice as Kaldi's programs read and write it: costs are natural, acoustic costs unscaled.

    Made by `Lattice.to_kaldi` and by `arcbeam.read_lattices`.

    Attributes
    ----------
    start : int
        The start state; -1 without states.
    arcs : structured [num_arcs]
        ``source``, ``target`` (uint32), ``word`` (int32; 0 for none), ``graph_cost``, ``acoustic_cost`` (float32); the
        graph's cost includes that of the language model. Ordered by source.
    labels : int32
        The labels of all arcs, one a frame: those of arc i are ``labels[label_begins[i]:label_begins[i + 1]]``.
    label_begins : int64 [num_arcs + 1]
    finals : structured [num_states]
        ``graph_cost``, ``acoustic_cost``: +inf where no path ends.
    final_labels, final_label_begins
        The labels of final weights, by state.
    """

    @lists_options()
    def __init__(
        self,
        start: int,
        arcs: npt.NDArray[Any],
        labels: npt.NDArray[np.int32],
        label_begins: npt.NDArray[np.int64],
        finals: npt.NDArray[Any],
        final_labels: npt.NDArray[np.int32],
        final_label_begins: npt.NDArray[np.int64],
    ) -> None:
        self.start = start
        self.arcs = arcs
        self.labels = labels
        self.label_begins = label_begins
        self.finals = finals
        self.final_labels = final_labels
        self.final_label_begins = final_label_begins
        for array in (arcs, labels, label_begins, finals, final_labels, final_label_begins):
            array.flags.writeable = False

    @property
    def num_states(self) -> int:
        """States."""
        return len(self.finals)

    @property
    def num_arcs(self) -> int:
        """Arcs."""
        return len(self.arcs)

    @property
    def first_arcs(self) -> npt.NDArray[np.int64]:
        """int64 [num_states + 1]: the arcs that leave state s are ``[first_arcs[s], first_arcs[s + 1])``."""
        counts = np.bincount(self.arcs["source"], minlength=self.num_states)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])

    def costs(self, acoustic_scale: float = 1.0) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The costs of arcs and of final states: the graph's and `acoustic_scale` times the acoustic cost."""
        both = (self.arcs, self.finals)
        costs = [a["graph_cost"].astype(np.float64) + acoustic_scale * a["acoustic_cost"] for a in both]
        costs[1][np.isposinf(self.finals["graph_cost"])] = np.inf
        return costs[0], costs[1]

    @lists_options()
    def to_openfst(self, acoustic_scale: float = 1.0) -> Any:
        """An acceptor of words: a ``kaldifst.StdVectorFst``, or pywrapfst's where only that is installed.

        Parameters
        ----------
        acoustic_scale : float
            Factor on the acoustic costs; the decoder's gives the costs with which the lattice was made.
        """

        def write(path: str | os.PathLike[str]) -> None:
            words = self.arcs["word"]
            arcs, finals = (cost.astype("<f4") for cost in self.costs(acoustic_scale))
            write_vector(path, self.start, self.arcs["source"], self.arcs["target"], words, words, arcs, finals)

        return read_back(write)

    @lists_options()
    def best_path(self, acoustic_scale: float = 1.0) -> KaldiPath:
        """The path of the smallest cost, of equals that of the first arcs.

        Parameters
        ----------
        acoustic_scale : float
            Factor on the acoustic costs.

        Raises
        ------
        ValueError
            The lattice has a cycle, or no path from its start to a final state.
        """
        arc_costs, final_costs = self.costs(acoustic_scale)
        best = np.full(self.num_states, np.inf)
        came_by = np.full(self.num_states, -1)
        first, targets, costs = self.first_arcs.tolist(), self.arcs["target"].tolist(), arc_costs.tolist()
        if self.num_states:
            best[self.start] = 0.0
        for state in self._topological_order():
            for arc in range(first[state], first[state + 1]):
                cost = best[state] + costs[arc]
                if cost < best[targets[arc]]:
                    best[targets[arc]], came_by[targets[arc]] = cost, arc
        ends = best + final_costs
        if not np.isfinite(ends).any():
            raise ValueError("expected a path from the start to a final state, but the lattice has none")
        end = state = int(np.argmin(ends))
        path: list[int] = []
        while state != self.start:
            path.append(int(came_by[state]))
            state = int(self.arcs["source"][path[-1]])
        path.reverse()
        begins = self.label_begins
        labels = [self.labels[begins[arc] : begins[arc + 1]] for arc in path]
        labels.append(self.final_labels[self.final_label_begins[end] : self.final_label_begins[end + 1]])
        words = self.arcs["word"][path]
        totals = [
            sum(self.arcs[part][path].tolist(), 0.0) + float(self.finals[part][end])
            for part in ("graph_cost", "acoustic_cost")
        ]
        return KaldiPath(words[words != 0], np.concatenate(labels), *totals)

    def _topological_order(self) -> list[int]:
        """States with every arc's source before its target; ValueError if there is a cycle."""
        missing = np.bincount(self.arcs["target"], minlength=self.num_states).tolist()
        first, targets = self.first_arcs.tolist(), self.arcs["target"].tolist()
        order = [state for state, count in enumerate(missing) if count == 0]
        for state in order:  # grows while it is read
            for target in targets[first[state] : first[state + 1]]:
                missing[target] -= 1
                if missing[target] == 0:
                    order.append(target)
        if len(order) < self.num_states:
            raise ValueError(f"expected a lattice without cycles, but state {missing.index(max(missing))} is on one")
        return order

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KaldiLattice):
            return NotImplemented
        mine, others = vars(self), vars(other)
        return all(np.array_equal(mine[name], others[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return shown_as("KaldiLattice", f"{self.num_states:,} states", f"{self.num_arcs:,} arcs")
