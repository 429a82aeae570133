"""Finds the open slot of a graph, which is that of a build without the slot, byte for byte.

T o LG is composed with the pseudo-token, s --pseudo-token--> t, and without it. Walking both in step finds s' and t'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from arcbeam.graph.open_slot import OpenSlot

UNSEEN = -1
Columns = dict[str, npt.NDArray[Any]]


class _Arcs:
    """The arcs of a graph, or of `chosen` (bool [arcs]), by the state that they leave."""

    def __init__(self, columns: Columns, chosen: npt.NDArray[np.bool_]) -> None:
        first = columns["states"]["first_arc"].astype(np.int64)
        self.num_states = len(first) - 1
        self.ids = np.flatnonzero(chosen)
        self.sources = np.repeat(np.arange(self.num_states), np.diff(first))[self.ids]
        self.targets = columns["targets"]["next_state"][self.ids].astype(np.int64)
        self.first = np.searchsorted(self.sources, np.arange(self.num_states + 1))

    def places(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where the arcs of some states lie here, state by state."""
        counts = self.first[states + 1] - self.first[states]
        begins = np.repeat(self.first[states] - np.append(0, np.cumsum(counts)[:-1]), counts)
        return begins + np.arange(len(begins))

    def found_from(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The states that some states lead to, themselves included, in the order in which they are found."""
        seen = np.zeros(self.num_states, bool)
        found = [states]
        while len(states):
            seen[states] = True
            reached = self.targets[self.places(states)]
            reached = reached[~seen[reached]]
            _, firsts = np.unique(reached, return_index=True)
            states = reached[np.sort(firsts)]
            found.append(states)
        return np.concatenate(found)

    def leading_to(self, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether a state leads to one of some states."""
        backwards = _Arcs.__new__(_Arcs)
        order = np.argsort(self.targets, kind="stable")
        backwards.num_states, backwards.targets = self.num_states, self.sources[order]
        backwards.first = np.searchsorted(self.targets[order], np.arange(self.num_states + 1))
        leads = np.zeros(self.num_states, bool)
        leads[backwards.found_from(ends)] = True
        return leads


def add_slot(
    without: Columns, start: int, max_depth: int, composed: Columns, start_composed: int, column: int
) -> tuple[Columns, int, OpenSlot]:
    """The columns of `without` with the slot of `composed`, the largest epsilon depth, and the slot."""
    # The exit counts the arc of new words in its epsilon depth. So that no depth of the graph changes, the exit is a
    # copy of t' if no epsilon arc leads to t'. States that only the pseudo-token leads to are added, too.
    from arcbeam.graph.open_slot import OpenSlot, deepen

    is_slot = composed["columns"] == column
    arcs, own = _Arcs(composed, ~is_slot), _Arcs(without, np.ones(len(without["words"]), bool))
    ends = arcs.leading_to(np.flatnonzero(np.isfinite(composed["finals"])))
    walked = _Arcs(composed, ~is_slot & ends[composed["targets"]["next_state"]])
    here, there = walked.found_from(np.array([start_composed])), own.found_from(np.array([start]))
    if len(here) != len(there) or not _equal(walked, composed, here, own, without, there):
        raise RuntimeError("expected the same graph with the open slot and without it, but for the slot")
    numbers = np.full(arcs.num_states, UNSEEN)
    numbers[here] = there

    enters = _Arcs(composed, is_slot)
    exits = np.unique(enters.targets)
    new = arcs.found_from(exits)
    new = new[numbers[new] == UNSEEN]
    numbers[new] = len(without["finals"]) + np.arange(len(new))
    known = exits[numbers[exits] < len(without["finals"])]
    shallow = known[without["states"]["depth"][numbers[known]] == 0]
    columns = _appended(without, composed, arcs, np.append(new, shallow), numbers)
    leads_to = numbers.copy()
    leads_to[shallow] = len(columns["finals"]) - len(shallow) + np.arange(len(shallow))

    entrances, weights = numbers[enters.sources], composed["targets"]["weight"][enters.ids]
    exits_of = leads_to[enters.targets]
    used = entrances != UNSEEN
    copied = np.isin(enters.sources, shallow)  # a copy is an entrance, too, if its original is
    entrances = np.append(entrances[used], leads_to[enters.sources[copied]])
    weights = np.append(weights[used], weights[copied])
    exits_of = np.append(exits_of[used], exits_of[copied])
    order = np.argsort(entrances, kind="stable")
    slot = OpenSlot(entrances[order].astype(np.uint32), weights[order], exits_of[order].astype(np.uint32))
    return columns, deepen(columns, max_depth, slot.exits), slot


def _equal(
    one: _Arcs,
    columns: Columns,
    states: npt.NDArray[np.int64],
    other: _Arcs,
    other_columns: Columns,
    other_states: npt.NDArray[np.int64],
) -> bool:
    """Whether the arcs of some states are those of others, state by state."""
    if not np.array_equal(np.diff(one.first)[states], np.diff(other.first)[other_states]):
        return False
    numbers = np.zeros(one.num_states, np.int64)
    numbers[states] = other_states
    places, other_places = one.places(states), other.places(other_states)
    arcs, other_arcs = one.ids[places], other.ids[other_places]
    return (
        np.array_equal(numbers[one.targets[places]], other.targets[other_places])
        and np.array_equal(columns["targets"]["weight"][arcs], other_columns["targets"]["weight"][other_arcs])
        and all(np.array_equal(columns[name][arcs], other_columns[name][other_arcs]) for name in ("columns", "words"))
        and np.array_equal(columns["finals"][states], other_columns["finals"][other_states])
    )


def _appended(
    columns: Columns, others: Columns, arcs: _Arcs, states: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> Columns:
    """The columns of a graph, and after them some states of another graph with some of its arcs."""
    places = arcs.places(states)
    ids = arcs.ids[places]
    targets = others["targets"][ids]
    targets["next_state"] = numbers[arcs.targets[places]]
    records = np.append(columns["states"][:-1], others["states"][states])
    closing = columns["states"][-1:].copy()
    counts = np.diff(arcs.first)[states]
    added = records[len(records) - len(states) :]
    epsilons = added["first_emitting"] - added["first_arc"]
    added["first_arc"] = len(columns["words"]) + np.append(0, np.cumsum(counts))[:-1]
    added["first_emitting"] = added["first_arc"] + epsilons
    added["depth"] = 0
    closing["first_arc"] = closing["first_emitting"] = len(columns["words"]) + len(ids)
    return {
        "states": np.append(records, closing),
        "targets": np.append(columns["targets"], targets),
        "columns": np.append(columns["columns"], others["columns"][ids]),
        "words": np.append(columns["words"], others["words"][ids]),
        "finals": np.append(columns["finals"], others["finals"][states]),
    }
