"""New words in the order in which a search on a device reads them: ``cuda/rescore/new_words.hpp``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from arcbeam.ctc.gpu.searches import graph_layout
from arcbeam.graph.graph import Graph
from arcbeam.graph.new_words import NewWords
from arcbeam.graph.open_slot import OpenSlot

ENTRANCE = np.dtype([("state", "u4"), ("depth", "u4")])
NO_STATE = 0xFFFFFFFF


def entrances(states: npt.NDArray[np.void], slot: OpenSlot) -> npt.NDArray[np.void]:
    """The entrances of a graph, ENTRANCE[E + 1]; after the last comes one of no state."""
    made = np.full(len(slot.entrances) + 1, NO_STATE, "u4").repeat(2).view(ENTRANCE)
    made["state"][:-1] = slot.entrances
    made["depth"][:-1] = states["depth"][slot.entrances]
    return made


def last_labels(labels: npt.NDArray[np.uint16], num_arcs: int) -> npt.NDArray[np.uint16]:
    """Those labels of a graph that do not fill a chunk: the columns of requests begin with them."""
    return labels[num_arcs // graph_layout.CHUNK * graph_layout.CHUNK : num_arcs].copy()


def columns(graph: Graph, new_words: NewWords, last: npt.NDArray[np.uint16]) -> list[tuple[npt.NDArray[np.uint8], int]]:
    """The columns of a request in the order of NewWordsOnDevice, each with the bytes that ids before it would take."""
    first_state, first_arc = new_words.first_state, new_words.first_arc
    states = new_words.states.copy()  # with the numbers of its own arcs
    for name in ("first_arc", "first_emitting"):
        states[name] -= first_arc
    rows = graph_layout.state_rows(states, new_words.targets, new_words.words)
    for name in ("first_arc", "first_emitting", "arcs_end"):
        rows[name] += first_arc
    own = graph_layout.labels(states, new_words.targets, new_words.columns, graph.num_columns)
    whole = -(-(len(last) + len(new_words.columns)) // graph_layout.CHUNK) * graph_layout.CHUNK
    labels = np.zeros(whole, np.uint16)
    labels[: len(last)] = last
    labels[len(last) : len(last) + len(new_words.columns)] = own[: len(new_words.columns)]
    made = [
        (rows, first_state), (new_words.targets, first_arc), (labels, first_arc - len(last)),
        (new_words.finals, first_state), (new_words.words, first_arc), (new_words.columns, first_arc),
    ]  # fmt: skip
    return [
        (np.ascontiguousarray(column).reshape(-1).view(np.uint8), before * column.itemsize) for column, before in made
    ]
