"""Passes a Graph's columns to C++: addresses of arrays that the holder keeps alive."""

from libc.stdint cimport uint16_t, uint32_t, uintptr_t


cdef extern from "shared/graph_view.hpp" namespace "arcbeam" nogil:
    cdef struct StateRecord:
        uint32_t first_arc
        uint32_t first_emitting
        float smallest_weight
        uint32_t depth

    cdef struct ArcTarget:
        uint32_t next_state
        float weight

    cdef struct GraphView:
        const StateRecord* states
        const ArcTarget* targets
        const uint16_t* columns
        const uint32_t* words
        const float* finals
        uint32_t num_states
        uint32_t num_arcs
        uint32_t start
        uint32_t max_depth


cdef extern from "graph/open_graph.hpp" namespace "arcbeam" nogil:
    cdef struct NewWordsView:
        const StateRecord* states
        const ArcTarget* targets
        const uint16_t* columns
        const uint32_t* words
        const float* finals
        const uint32_t* entrances
        uint32_t num_entrances
        uint32_t first_word

    cdef cppclass OpenColumn[T]:
        pass

    cdef cppclass OpenGraph:
        OpenGraph()
        OpenGraph(const GraphView&)
        OpenGraph(const GraphView&, const NewWordsView&)
        OpenColumn[uint32_t] words


cdef inline GraphView view_of(graph):
    """The view of an arcbeam.Graph, valid as long as the graph exists."""
    cdef GraphView view
    view.states = <const StateRecord*> <uintptr_t> graph.states.ctypes.data
    view.targets = <const ArcTarget*> <uintptr_t> graph.targets.ctypes.data
    view.columns = <const uint16_t*> <uintptr_t> graph.columns.ctypes.data
    view.words = <const uint32_t*> <uintptr_t> graph.words.ctypes.data
    view.finals = <const float*> <uintptr_t> graph.finals.ctypes.data
    view.num_states = graph.num_states
    view.num_arcs = graph.num_arcs
    view.start = graph.start
    view.max_depth = graph.max_depth
    return view


cdef inline NewWordsView new_words_view_of(new_words):
    """The view of an arcbeam.graph.new_words.NewWords, valid as long as that exists."""
    cdef NewWordsView view
    view.states = <const StateRecord*> <uintptr_t> new_words.states.ctypes.data
    view.targets = <const ArcTarget*> <uintptr_t> new_words.targets.ctypes.data
    view.columns = <const uint16_t*> <uintptr_t> new_words.columns.ctypes.data
    view.words = <const uint32_t*> <uintptr_t> new_words.words.ctypes.data
    view.finals = <const float*> <uintptr_t> new_words.finals.ctypes.data
    view.entrances = <const uint32_t*> <uintptr_t> new_words.entrances.ctypes.data
    view.num_entrances = len(new_words.entrances)
    view.first_word = new_words.first_word
    return view


cdef inline OpenGraph open_view_of(graph):
    """The view of an arcbeam.Graph, or of an arcbeam.graph.new_words.OpenGraph, valid as long as that exists."""
    new_words = getattr(graph, "new_words", None)
    if new_words is None:
        return OpenGraph(view_of(graph))
    return OpenGraph(view_of(graph.graph), new_words_view_of(new_words))
