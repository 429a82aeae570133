"""The graph of an FST, which is compiled once, because callers make a decoder for each utterance."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from arcbeam.graph.graph import Graph

_lock = threading.Lock()
_compiled: dict[int, tuple[Any, tuple[int, int], Graph]] = {}  # by the FST's id: itself, its size, its graph


def graph_of(fst: Any) -> Graph:
    """The compiled graph of an FST of kaldifst; TypeError or GraphError as of `Graph.from_fst`."""
    size = _size(fst)
    with _lock:
        known = _compiled.get(id(fst))
    if known is not None and known[0]() is fst and known[1] == size:
        return known[2]
    graph = Graph.from_fst(fst)
    number = id(fst)
    with _lock:
        _compiled[number] = weakref.ref(fst, lambda _: _forget(number)), size, graph
    return graph


def _forget(number: int) -> None:
    """Drops the graph of an FST that is no more."""
    with _lock:
        known = _compiled.get(number)
        if known is not None and known[0]() is None:
            del _compiled[number]


def _size(fst: Any) -> tuple[int, int]:
    """What shows most changes of an FST after it was compiled: its states and its start."""
    return int(getattr(fst, "num_states", -1)), int(getattr(fst, "start", -1))
