"""Writes a compiled graph as an OpenFst ``vector`` file, for peers that read those.

The arcs keep the order of the compiled graph, so arc ids mean the same on both sides. Input labels are column + 1 and
0 for epsilon; ``tests/benchmarks`` reads the file back with kaldifst and compares every arc.
"""

from pathlib import Path

import numpy as np

import arcbeam
from arcbeam.graph.openfst import input_labels, write_vector


def write_openfst(graph: "arcbeam.Graph", path: str | Path) -> None:
    """Writes ``graph`` to ``path``, by way of arrays of all arcs."""
    sources = np.repeat(np.arange(graph.num_states), np.diff(graph.states["first_arc"].astype(np.int64)))
    labels = input_labels(graph.columns)
    targets = graph.targets
    write_vector(
        path, graph.start, sources, targets["next_state"], labels, graph.words, targets["weight"], graph.finals,
        graph.num_states,
    )  # fmt: skip
