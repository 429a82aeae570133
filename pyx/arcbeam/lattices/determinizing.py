"""Compact lattices determinised: of each word sequence the best path alone."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from arcbeam.lattices._determinize import STEP_LIMIT, WIDEST, determinize
from arcbeam.lattices.compact_lattice import ARC, FINAL, CompactLattice, Floats

UNIT = 2.0**-32  # nats: costs are whole multiples of it, so that sums are exact
LARGEST_SUM = 2.0**30  # nats

Kind = TypeVar("Kind", bound=CompactLattice)


def determinized(
    lattice: Kind,
    costs: tuple[Floats, Floats],
    beam: float,
    acoustic_scale: float,
    step_limit: int = STEP_LIMIT,
) -> Kind:
    """The lattice determinised, whose arcs must lead to larger states."""
    # `costs` are those that `cost_parts` gives, or the same before they were rounded to float32.
    ends = np.flatnonzero(np.isfinite(costs[1][:, 0]))
    arc_costs, end_costs = costs[0], costs[1][ends]
    if (total := float(np.abs(arc_costs).sum() + np.abs(end_costs).sum())) >= LARGEST_SUM:
        raise ValueError(
            f"expected costs whose magnitudes add up to less than 2**30 nats, got {total:g}; determinize=False leaves "
            "the lattice as it is"
        )
    arrays = {
        "first_arc": lattice.first_arcs,
        "targets": lattice.arcs["target"],
        "words": lattice.arcs["word"],
        "costs": np.rint(arc_costs / UNIT),
        "first_label": lattice.label_begins,
        "labels": lattice.labels,
        "ends": ends,
        "end_costs": np.rint(end_costs / UNIT),
        "first_end_label": np.append(lattice.final_label_begins[ends], lattice.final_label_begins[-1]),
        "end_labels": lattice.final_labels,
    }
    limit = int(min(np.rint(beam / UNIT), float(WIDEST)))
    made, left = determinize(arrays, max(lattice.start, 0), limit, step_limit=step_limit)
    num_states = len(made["first_arc"]) - 1
    arcs = np.empty(len(made["targets"]), ARC)
    arcs["source"] = np.repeat(np.arange(num_states), made["first_arc"][1:] - made["first_arc"][:-1])
    arcs["target"], arcs["word"] = made["targets"], made["words"]
    arcs["graph_cost"], arcs["acoustic_cost"] = _in_nats(made["costs"], acoustic_scale)
    finals = np.full(num_states, np.inf, FINAL)
    finals["graph_cost"][made["ends"]], finals["acoustic_cost"][made["ends"]] = _in_nats(
        made["end_costs"], acoustic_scale
    )
    lengths = np.zeros(num_states, np.int64)
    lengths[made["ends"]] = made["first_end_label"][1:] - made["first_end_label"][:-1]
    return type(lattice)(
        0 if num_states else -1,
        arcs,
        made["labels"].view(np.int32),
        made["first_label"].astype(np.int64),
        finals,
        made["end_labels"].view(np.int32),
        np.append(0, np.cumsum(lengths)).astype(np.int64),
        word_symbols=lattice.word_symbols,
        beam=beam if left == limit else left * UNIT,
    )


def _in_nats(costs: npt.NDArray[np.int64], acoustic_scale: float) -> tuple[Floats, Floats]:
    """The graph's and the acoustic costs, as Kaldi writes them."""
    nats = costs.astype(np.float64) * UNIT
    return nats[:, 0], nats[:, 1] / acoustic_scale
