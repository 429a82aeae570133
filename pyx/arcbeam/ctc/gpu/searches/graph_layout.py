"""A graph in the order in which a search on a device reads it: ``cuda/decode/device_graph.hpp`` and ``.cuh``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from arcbeam.graph.open_slot import OpenSlot

LABEL_BITS = 16
EPSILON = 0xFFFF
RANGE = 32.0
"""A weight that exceeds the smallest of its state by more than this counts as if it exceeded it by this much."""
AT_A_TIME = 1 << 20
CHUNK = 8
"""Labels that are loaded at a time; their array is padded to a multiple of this."""
ROW = np.dtype(
    [
        ("first_arc", "u4"),
        ("first_emitting", "u4"),
        ("arcs_end", "u4"),
        ("smallest_weight", "f4"),
        ("epsilon_next_state", "u4"),
        ("epsilon_weight", "f4"),
        ("depth", "u4"),
        ("entrance", "u4"),
    ]
)
NO_EPSILON = 0xFFFFFFFF


WRITES_WORDS = 0x80000000
"""Set in `entrance` where an epsilon arc of the state has a word."""


def state_rows(
    states: npt.NDArray[np.void],
    targets: npt.NDArray[np.void],
    words: npt.NDArray[np.uint32],
    open_slot: OpenSlot | None = None,
) -> npt.NDArray[np.void]:
    """ROW[num_states]: all that a search needs of each state, including its first epsilon arc."""
    made = np.zeros(len(states) - 1, ROW)
    for name in ("first_arc", "first_emitting", "smallest_weight"):
        made[name] = states[name][:-1]
    made["arcs_end"] = states["first_arc"][1:]
    made["depth"] = NO_EPSILON
    of = np.flatnonzero(made["first_arc"] != made["first_emitting"])
    made["depth"][of] = states["depth"][of]
    for name in ("next_state", "weight"):
        made["epsilon_" + name][of] = targets[name][made["first_arc"][of]]
    if open_slot is not None:
        entered, first = np.unique(open_slot.entrances, return_index=True)
        made["entrance"][entered] = 1 + first
    written = np.zeros(len(words) + 1, np.uint32)  # by the arcs before each
    np.cumsum(words != 0, out=written[1:])
    writes = written[made["first_emitting"]] != written[made["first_arc"]]
    made["entrance"][writes] |= np.uint32(WRITES_WORDS)
    return made


def column_bits(num_columns: int) -> int:
    """The number of bits of a label that hold the column."""
    return max(1, (num_columns - 1).bit_length())


def labels(
    states: npt.NDArray[np.void], targets: npt.NDArray[np.void], columns: npt.NDArray[np.uint16], num_columns: int
) -> npt.NDArray[np.uint16]:
    """uint16[num_arcs, padded to whole chunks]: the label of each arc; 0 for epsilon, which is loaded with others."""
    bits = column_bits(num_columns)
    levels = 1 << (LABEL_BITS - bits)
    step = np.float32(RANGE / levels)
    made = np.zeros(-(-len(columns) // CHUNK) * CHUNK, np.uint16)
    made[: len(columns)] = np.where(columns == EPSILON, 0, columns)
    if levels == 1:
        return made
    first_arc = states["first_arc"]
    for first in range(0, len(states) - 1, AT_A_TIME):
        last = min(first + AT_A_TIME, len(states) - 1)
        arcs = slice(int(first_arc[first]), int(first_arc[last]))
        smallest = np.repeat(states["smallest_weight"][first:last], np.diff(first_arc[first : last + 1]))
        weight = targets["weight"][arcs]
        with np.errstate(invalid="ignore"):
            excess = np.nan_to_num((weight - smallest) / step, nan=0.0)
        level = np.clip(excess, 0, levels - 1).astype(np.uint16)
        for _ in range(2):  # the sum may have been rounded up beyond the weight
            level -= (smallest + level.astype(np.float32) * step > weight) & (level > 0)
        made[arcs] |= np.where(columns[arcs] == EPSILON, 0, level << np.uint16(bits)).astype(np.uint16)
    return made
