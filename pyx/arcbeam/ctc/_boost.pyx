"""The border to the boost lists: phrases in, automata over the words of a graph out."""

import numpy as np

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memcpy
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from arcbeam.graph._graph_view cimport OpenGraph, new_words_view_of, open_view_of


cdef extern from "boost/compile.hpp" namespace "arcbeam::boost" nogil:
    cdef cppclass Phrases:
        size_t size()

    cdef cppclass Automaton:
        vector[BoostState] states
        vector[BoostArc] arcs
        double largest

    Automaton compile_phrases "arcbeam::boost::compile"(const Phrases&, double) except +


cdef extern from "arcbeam/ctc/_boost/words.hpp" namespace "arcbeam::boost" nogil:
    cdef cppclass string_view "std::string_view":
        string_view(const char*, size_t)

    cdef cppclass CppWordIndex "arcbeam::boost::WordIndex":
        CppWordIndex(const int64_t*, const int64_t*, const char*, size_t, const uint8_t*, size_t) except +
        uint32_t find(string_view)

    Phrases known_phrases(const CppWordIndex&, const CppWordIndex*, string_view, const int64_t*, uint8_t*) except +


cdef extern from "decode/boosted_models.hpp" namespace "arcbeam::twin" nogil:
    double cpp_path_boost "arcbeam::twin::path_boost"(const OpenGraph&, const BoostView&, const uint32_t*, size_t)


STATE = np.dtype([("potential", "<f4"), ("fallback", "<u4")])
ARC = np.dtype([("state", "<u4"), ("word", "<u4"), ("next_state", "<u4"), ("cost", "<f4")])


cdef class WordIndex:
    """The words that some arc writes, by their text.

    Parameters
    ----------
    symbols : arcbeam.SymbolTable
    words : uint32 [arcs]
        What each arc writes.
    """

    cdef unique_ptr[CppWordIndex] index
    cdef list arrays  # that the index points into

    def __init__(self, symbols, words):
        ids, offsets, text = [np.ascontiguousarray(array) for array in symbols.arrays()]
        is_written = np.zeros(int(words.max(initial=0)) + 1, np.uint8)
        is_written[words] = 1
        is_written[0] = 0
        self.arrays = [ids, offsets, text]
        cdef const uint8_t[::1] written = is_written
        self.index.reset(new CppWordIndex(
            <const int64_t*> <uintptr_t> ids.ctypes.data, <const int64_t*> <uintptr_t> offsets.ctypes.data,
            <const char*> <uintptr_t> text.ctypes.data, len(ids), &written[0], written.shape[0]))

    def __contains__(self, str word):
        cdef bytes text = word.encode()
        return self.index.get().find(string_view(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))) != 0


cdef class BoostList:
    @property
    def states(self):
        """STATE [states]: potential and fallback of each state."""
        return self.state_bytes.view(STATE)

    @property
    def arcs(self):
        """ARC: the hash table of arcs; word 0 where there is none."""
        return self.arc_bytes.view(ARC)


def compiled(WordIndex index, bytes text, const int64_t[::1] scores, double depth_scaling, new_words=None):
    """The automaton of the phrases whose words the graph or the request has, and the largest sum of scores in it.

    Parameters
    ----------
    index : WordIndex
    text : bytes
        Phrases as lines of UTF-8, their words with one space between them; none is empty, and no two are equal.
    scores : int64 [phrases]
        In units of 1/1024.
    depth_scaling : float
    new_words : arcbeam.graph.new_words.NewWords, optional
        The request's.

    Returns
    -------
    BoostList
        Its `is_known`, uint8 [phrases], says which phrases are in it.
    largest : float
        Of the potentials and costs in the automaton, without their signs.
    """
    cdef BoostList made
    cdef WordIndex of_request
    cdef const CppWordIndex* added = NULL
    if new_words is not None:
        of_request = WordIndex(new_words.symbols, new_words.words)
        added = of_request.index.get()
    cdef Automaton automaton
    cdef uint8_t[::1] is_known = np.zeros(scores.shape[0], np.uint8)
    cdef const char* begin = PyBytes_AS_STRING(text)
    cdef size_t size = PyBytes_GET_SIZE(text)
    cdef const int64_t* first_score = &scores[0] if scores.shape[0] else NULL
    cdef uint8_t* first_known = &is_known[0] if scores.shape[0] else NULL
    with nogil:
        automaton = compile_phrases(
            known_phrases(index.index.get()[0], added, string_view(begin, size), first_score, first_known),
            depth_scaling)
    made = list_of(automaton)
    made.is_known = np.asarray(is_known)
    made.new_words = new_words
    if new_words is not None:
        made.new_words_view = new_words_view_of(new_words)
    return made, automaton.largest


cdef BoostList no_phrases():
    cdef Phrases phrases
    return list_of(compile_phrases(phrases, 1.0))


cdef BoostList list_of(const Automaton& automaton):
    cdef BoostList made = BoostList()
    made.is_known = np.zeros(0, np.uint8)
    made.state_bytes = np.empty(automaton.states.size() * sizeof(BoostState), np.uint8)
    made.arc_bytes = np.empty(automaton.arcs.size() * sizeof(BoostArc), np.uint8)
    cdef uint8_t[::1] states = made.state_bytes, arcs = made.arc_bytes
    memcpy(&states[0], automaton.states.data(), states.shape[0])
    memcpy(&arcs[0], automaton.arcs.data(), arcs.shape[0])
    made.view = BoostView(<const BoostState*> &states[0], <const BoostArc*> &arcs[0], automaton.arcs.size() - 1)
    return made


def boost_cost(graph, BoostList boost, const uint32_t[::1] arcs):
    """What a boost added to the cost of a path, its refund included."""
    cdef const uint32_t* first = &arcs[0] if arcs.shape[0] else NULL
    return cpp_path_boost(open_view_of(graph), boost.view, first, arcs.shape[0])


cdef list each(boosts, size_t utterances):
    """A BoostList or None for each utterance; ValueError if there are not as many."""
    if boosts is None or isinstance(boosts, BoostList):
        return [boosts] * utterances
    if len(boosts) != utterances:
        raise ValueError(f"boost: expected one for each of {utterances} utterances, got {len(boosts)}")
    return list(boosts)
