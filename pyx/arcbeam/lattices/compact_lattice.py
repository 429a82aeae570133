"""The arrays of a compact lattice: an acceptor of words, whose weights are two costs and the labels of the frames."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_real
from arcbeam.core.show import shown_as
from arcbeam.graph.symbols import SymbolTable

ARC = np.dtype([("source", "<u4"), ("target", "<u4"), ("word", "<i4"), ("graph_cost", "<f4"), ("acoustic_cost", "<f4")])
FINAL = np.dtype([("graph_cost", "<f4"), ("acoustic_cost", "<f4")])
ARRAYS = "arcs", "labels", "label_begins", "finals", "final_labels", "final_label_begins"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class CompactLattice:
    """The arrays of `KaldiLattice`, which says what they are."""

    @lists_options()
    def __init__(
        self,
        start: int,
        arcs: npt.NDArray[Any],
        labels: npt.NDArray[np.int32],
        label_begins: Ints,
        finals: npt.NDArray[Any],
        final_labels: npt.NDArray[np.int32],
        final_label_begins: Ints,
        *,
        word_symbols: SymbolTable | None = None,
        beam: float | None = None,
    ) -> None:
        self.start = start
        self.arcs = arcs
        self.labels = labels
        self.label_begins = label_begins
        self.finals = finals
        self.final_labels = final_labels
        self.final_label_begins = final_label_begins
        self.word_symbols = word_symbols
        self.beam = beam
        for name in ARRAYS:
            getattr(self, name).flags.writeable = False

    @property
    def num_states(self) -> int:
        """States."""
        return len(self.finals)

    @property
    def num_arcs(self) -> int:
        """Arcs."""
        return len(self.arcs)

    @property
    def first_arcs(self) -> Ints:
        """int64 [num_states + 1]: the arcs that leave state s are ``[first_arcs[s], first_arcs[s + 1])``."""
        counts = np.bincount(self.arcs["source"], minlength=self.num_states)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])

    def cost_parts(self, acoustic_scale: float) -> tuple[Floats, Floats]:
        """float64 [arcs, 2] and [states, 2]: the graph's costs, and `acoustic_scale` times the acoustic costs."""
        check_real("acoustic_scale", acoustic_scale, "of at least 0", above=0.0, inclusive=True)
        with np.errstate(invalid="ignore"):  # 0 times the cost of a state that is not final
            arcs, finals = (
                np.stack([costs["graph_cost"].astype(np.float64), acoustic_scale * costs["acoustic_cost"]], axis=1)
                for costs in (self.arcs, self.finals)
            )
        finals[np.isposinf(self.finals["graph_cost"])] = np.inf
        return arcs, finals

    def costs(self, acoustic_scale: float = 1.0) -> tuple[Floats, Floats]:
        """The costs of arcs and of final states: the graph's and `acoustic_scale` times the acoustic cost."""
        arcs, finals = self.cost_parts(acoustic_scale)
        return arcs.sum(axis=1), finals.sum(axis=1)

    def topological_order(self) -> list[int]:
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

    def ordered(self) -> Self:
        """The lattice with its states numbered so that arcs lead to larger ones; itself if they do."""
        if (self.arcs["source"] < self.arcs["target"]).all():
            return self
        order = np.array(self.topological_order(), np.int64)
        numbers = np.empty(self.num_states, np.int64)
        numbers[order] = np.arange(self.num_states)
        by_source = np.argsort(numbers[self.arcs["source"]], kind="stable")
        arcs = self.arcs[by_source]
        arcs["source"], arcs["target"] = numbers[arcs["source"]], numbers[arcs["target"]]
        return type(self)(
            int(numbers[self.start]),
            arcs,
            *picked(self.labels, self.label_begins, by_source),
            self.finals[order],
            *picked(self.final_labels, self.final_label_begins, order),
            word_symbols=self.word_symbols,
            beam=self.beam,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompactLattice):
            return NotImplemented
        return self.start == other.start and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ARRAYS
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return shown_as("KaldiLattice", f"{self.num_states:,} states", f"{self.num_arcs:,} arcs")


def picked(labels: npt.NDArray[np.int32], begins: Ints, chosen: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int32], Ints]:
    """The labels of chosen arcs or states, and where those of each begin."""
    lengths = np.diff(begins)[chosen]
    made = np.append(0, np.cumsum(lengths)).astype(np.int64)
    places = np.repeat(begins[:-1][chosen] - made[:-1], lengths) + np.arange(int(made[-1]))
    return labels[places], made
