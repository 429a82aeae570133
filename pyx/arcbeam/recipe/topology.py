"""CTC topologies: the transducer T from the frames' tokens to tokens; ``docs/guide/graphs.md`` has their rules.

Labels are columns + 1 (0: epsilon). Laptev, Majumdar and Ginsburg 2022; Galvez and Kaldewey 2023, section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.recipe.arrays import ArcArrays

if TYPE_CHECKING:
    import numpy.typing as npt


def make_topology(
    name: str, num_columns: int, blank: int | None, token_self_loops: bool = True, slot: bool = False
) -> ArcArrays:
    """Makes T: start state 0, all costs 0; `slot` adds the pseudo-token, of the label after the columns'."""
    maker = _MAKERS.get(name)
    if maker is None:
        known = ", ".join(repr(n) for n in TOPOLOGIES)
        raise ValueError(f"expected a topology among {known}, got {name!r}")
    if blank is not None or name != "identity":
        check_blank(f"the topology {name!r}", num_columns, blank)
    labels = np.array([c + 1 for c in range(num_columns) if c != blank], dtype=np.int32)
    topology = maker(labels, 0 if blank is None else blank + 1, token_self_loops)
    return _with_slot(name, topology, num_columns + 1) if slot else topology


def check_blank(what: str, num_columns: int, blank: int | None) -> int:
    """The column of the blank that `what` needs; ValueError if there is none, or none of so many columns."""
    if blank is None:
        raise ValueError(
            f"{what} needs the column of the blank, but none of the {num_columns} tokens is known to be the blank: add "
            "its line, <blank>, to the file of the tokens if it is missing, or name the blank"
        )
    if not 0 <= blank < num_columns:
        raise ValueError(f"expected the blank among {num_columns} columns, got column {blank}")
    return blank


def greedy_topology(num_columns: int, blank: int | None) -> ArcArrays:
    """`compact` with the hub as its last state: of paths of equal cost the one wins that keeps the label (law 2).

    The others are in its lists and lattices, too; `normal` has none of them, at N² arcs.
    """
    # In `compact` the same label in two frames without a blank between may be read as two labels, at no cost.
    blank = check_blank("greedy decoding", num_columns, blank)
    labels = np.array([column + 1 for column in range(num_columns) if column != blank], np.int32)
    states, hub = np.arange(len(labels)), len(labels)
    return ArcArrays.join(
        [(hub, hub, blank + 1, 0), (hub, states, labels, labels), (states, states, labels, 0), (states, hub, 0, 0)],
        finals=dict.fromkeys(range(hub + 1), 0.0),
        start=hub,
    )


def _with_slot(name: str, topology: ArcArrays, label: int) -> ArcArrays:
    # Blanks before the pseudo-token are read before it: in EESEN's topology after the hub, in the others on it.
    sources = {"eesen": np.array([1]), "normal": np.arange(topology.num_states)}.get(name, np.array([0]))
    arcs = (topology.sources, topology.targets, topology.inputs, topology.outputs, topology.costs)
    return ArcArrays.join([arcs, (sources, 0, label, label)], dict(enumerate(topology.finals.tolist())))


def _compact(labels: npt.NDArray[np.int32], blank: int, loops: bool) -> ArcArrays:
    if not loops:  # a token's state would only lead back to the hub
        return _identity(labels, blank, loops)
    states = np.arange(1, len(labels) + 1)
    return ArcArrays.join(
        [(0, 0, blank, 0), (0, states, labels, labels), (states, states, labels, 0), (states, 0, 0, 0)],
        finals={0: 0.0},
    )


def _normal(labels: npt.NDArray[np.int32], blank: int, loops: bool) -> ArcArrays:
    states = np.arange(1, len(labels) + 1)
    source, target = (a.ravel() for a in np.meshgrid(states, states, indexing="ij"))
    other = source != target
    source, target = source[other], target[other]
    arcs: list[tuple[Any, ...]] = [
        (0, 0, blank, 0),
        (0, states, labels, labels),
        (states, 0, blank, 0),
        (source, target, labels[target - 1], labels[target - 1]),
    ]
    if loops:
        arcs.append((states, states, labels, 0))
    return ArcArrays.join(arcs, finals={int(s): 0.0 for s in range(len(labels) + 1)})


def _eesen(labels: npt.NDArray[np.int32], blank: int, loops: bool) -> ArcArrays:
    states = np.arange(3, len(labels) + 3)
    arcs: list[tuple[Any, ...]] = [
        (0, 1, 0, 0),
        (1, 1, blank, 0),
        (2, 2, blank, 0),
        (2, 0, 0, 0),
        (1, states, labels, labels),
        (states, 2, 0, 0),
    ]
    if loops:
        arcs.append((states, states, labels, 0))
    # Frames that are all blank end in state 1; all others end in state 0.
    return ArcArrays.join(arcs, finals={0: 0.0, 1: 0.0})


def _identity(labels: npt.NDArray[np.int32], blank: int, loops: bool) -> ArcArrays:
    arcs: list[tuple[Any, ...]] = [(0, 0, labels, labels)]
    if blank:
        arcs.append((0, 0, blank, 0))
    return ArcArrays.join(arcs, finals={0: 0.0})


_MAKERS: dict[str, Callable[[npt.NDArray[np.int32], int, bool], ArcArrays]] = {
    "compact": _compact,
    "normal": _normal,
    "eesen": _eesen,
    "identity": _identity,
}
TOPOLOGIES = tuple(_MAKERS)
