"""Writes a compiled graph as an OpenFst ``vector`` file, for peers that read those.

The arcs keep the order of the compiled graph, so arc ids mean the same on both sides. Input labels are column + 1 and
0 for epsilon; ``tests/benchmarks`` reads the file back with kaldifst and compares every arc.
"""

import struct
from pathlib import Path

import numpy as np

import arcbeam

MAGIC = 2125659606
EXPANDED_AND_MUTABLE = 3
EPSILON_COLUMN = 0xFFFF
WORDS_A_STATE, WORDS_AN_ARC = (
    3,
    4,
)  # in 32-bit words: final weight, number of arcs (64 bits); label, label, weight, state


def write_openfst(graph: "arcbeam.Graph", path: str | Path) -> None:
    """Writes ``graph`` to ``path``; 12 bytes a state and 16 an arc, and as much memory while it does."""
    states, arcs = graph.num_states, graph.num_arcs
    first = graph.states["first_arc"].astype(np.int64)
    body = np.empty(WORDS_A_STATE * states + WORDS_AN_ARC * arcs, np.uint32)

    at_state = WORDS_A_STATE * np.arange(states) + WORDS_AN_ARC * first[:-1]
    body[at_state] = graph.finals.view(np.uint32)
    body[at_state + 1] = np.diff(first)
    body[at_state + 2] = 0

    source = np.repeat(np.arange(states), np.diff(first))
    at_arc = WORDS_A_STATE * (source + 1) + WORDS_AN_ARC * np.arange(arcs)
    columns = graph.columns.astype(np.uint32)
    body[at_arc] = np.where(columns == EPSILON_COLUMN, 0, columns + 1)
    body[at_arc + 1] = graph.words
    body[at_arc + 2] = np.ascontiguousarray(graph.targets["weight"]).view(np.uint32)
    body[at_arc + 3] = graph.targets["next_state"]

    header = struct.pack("<i", MAGIC)
    for text in (b"vector", b"standard"):
        header += struct.pack("<i", len(text)) + text
    header += struct.pack("<iiQqqq", 2, 0, EXPANDED_AND_MUTABLE, graph.start, states, arcs)
    with Path(path).open("wb") as file:
        file.write(header)
        body.tofile(file)
