"""Passes compiled boost lists to C++."""

from libc.stdint cimport uint32_t

from arcbeam.graph._graph_view cimport NewWordsView


cdef extern from "shared/boost.hpp" namespace "arcbeam" nogil:
    cdef struct BoostState:
        pass

    cdef struct BoostArc:
        pass

    cdef struct BoostView:
        const BoostState* states
        const BoostArc* arcs
        uint32_t mask


cdef class BoostList:
    """A boost list, compiled for a graph; made by `compiled`."""

    cdef object state_bytes, arc_bytes  # uint8 arrays that keep the memory of the view
    cdef readonly object is_known  # uint8 [phrases]: which phrases are in it
    cdef readonly bint all_known
    cdef readonly double largest  # of the potentials and costs, without their signs
    cdef readonly object new_words  # arcbeam.graph.new_words.NewWords, or None
    cdef NewWordsView new_words_view
    cdef BoostView view
    cdef object __weakref__


cdef BoostList no_phrases()
cdef list each(boosts, size_t utterances)
