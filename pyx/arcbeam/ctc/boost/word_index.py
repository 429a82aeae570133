"""The words of a graph, in which phrases are found: one index for each graph, which boosts share."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from arcbeam.core.errors import GraphError, UnsupportedError
from arcbeam.ctc.boost._boost import WordIndex
from arcbeam.graph.graph import Graph
from arcbeam.graph.symbols import is_far_beyond

_indices: WeakKeyDictionary[Graph, WordIndex] = WeakKeyDictionary()


def index_of(graph: Graph) -> WordIndex:
    """The index of a graph; GraphError or UnsupportedError for one without words that phrases consist of."""
    index = _indices.get(graph)
    if index is not None:
        return index
    if graph.word_symbols is None:
        raise GraphError("boost: the graph has no word symbols, so phrases cannot be found in it; give words=")
    if graph.join == "pieces":
        raise UnsupportedError(
            'boost: the graph writes pieces of words (join="pieces"), but phrases consist of words; build a graph with '
            "a lexicon"
        )
    most = int(graph.words.max(initial=0))
    if is_far_beyond(most, len(graph.word_symbols) + graph.num_arcs):
        raise GraphError(
            f"boost: expected words numbered from 1, because the engines make a table of them, got the output label "
            f"{most} in a graph of {len(graph.word_symbols)} words"
        )
    index = _indices[graph] = WordIndex(graph.word_symbols, graph.words)
    return index
