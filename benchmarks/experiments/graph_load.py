"""Seconds to load a graph: arcbeam's own file, and the same graph as an OpenFst file.

Files are in the page cache. The second graph is two disjoint copies of the first, to reach the size of a graph for a
LibriSpeech 3-gram (12 million states) and beyond.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import arcbeam
from benchmarks.data import graphs
from benchmarks.data.openfst_writer import EPSILON_COLUMN, write_openfst
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ORDER = 40
TITLE = "Loading a graph"
TAKES: dict[str, str] = {}
COLUMNS = [
    Column("graph", "graph"),
    Column("states", "states", "{:,}"),
    Column("arcs", "arcs", "{:,}"),
    Column("own file, MB", "own_mb", "{:,.0f}"),
    Column("load, s", "own_seconds", "{:.3f}"),
    Column("spread", "own_spread", "{:.3f}"),
    Column("OpenFst file, MB", "fst_mb", "{:,.0f}"),
    Column("import, s", "fst_seconds", "{:.2f}"),
    Column("import, MB/s", "fst_rate", "{:,.0f}"),
]


def run(context: Context) -> Iterator[Row]:
    files = graphs.get("char-3gram", context.progress)
    yield one(context, "char-3gram", files.arcbeam, files.fst)
    own, fst = graphs.FOLDER / "char-3gram-twice.arcbeam", graphs.FOLDER / "char-3gram-twice.fst"
    try:
        context.progress("making two copies of it in one graph")
        twice(arcbeam.Graph.load(files.arcbeam), own, fst)
        yield one(context, "char-3gram, two copies", own, fst)
    finally:
        own.unlink(missing_ok=True)
        fst.unlink(missing_ok=True)


def one(context: Context, name: str, own: Path, fst: Path) -> Row:
    graph = arcbeam.Graph.load(own)
    imported = arcbeam.Graph.load(fst)
    for column in ("states", "targets", "columns", "words", "finals"):
        if getattr(graph, column).tobytes() != getattr(imported, column).tobytes():
            raise AssertionError(f"{name}: {column} differs between the two files")
    states, arcs = graph.num_states, graph.num_arcs
    del graph, imported
    timings = timing.interleave(
        {"own": lambda: arcbeam.Graph.load(own), "fst": lambda: arcbeam.Graph.load(fst)}, context.repeats, warm_up=False
    )
    megabytes = {kind: path.stat().st_size / 1e6 for kind, path in (("own", own), ("fst", fst))}
    return {
        "graph": name,
        "states": states,
        "arcs": arcs,
        "own_mb": megabytes["own"],
        "own_seconds": timings["own"].seconds,
        "own_spread": timings["own"].spread(),
        "fst_mb": megabytes["fst"],
        "fst_seconds": timings["fst"].seconds,
        "fst_spread": timings["fst"].spread(),
        "fst_rate": megabytes["fst"] / timings["fst"].seconds,
    }


def twice(graph: arcbeam.Graph, own: Path, fst: Path) -> None:
    """Two disjoint copies of a graph; the second cannot be reached, which is legal."""
    source = np.repeat(np.arange(graph.num_states), np.diff(graph.states["first_arc"].astype(np.int64)))
    columns = graph.columns.astype(np.int64)
    label = np.where(columns == EPSILON_COLUMN, 0, columns + 1)
    target = graph.targets["next_state"].astype(np.int64)
    both = [np.concatenate(pair) for pair in (
        (source, source + graph.num_states), (target, target + graph.num_states), (label, label),
        (graph.words, graph.words), (graph.targets["weight"], graph.targets["weight"]),
    )]  # fmt: skip
    ends = np.flatnonzero(np.isfinite(graph.finals))
    finals = {int(s) + copy * graph.num_states: float(graph.finals[s]) for copy in (0, 1) for s in ends}
    doubled = arcbeam.Graph.from_arcs(both, start=graph.start, finals=finals, num_states=2 * graph.num_states)
    doubled.save(own)
    write_openfst(doubled, fst)
