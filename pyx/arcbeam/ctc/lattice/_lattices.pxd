"""The lattices of a batch, as the engines hand them over."""

from libc.stdint cimport uint32_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector


cdef extern from "lattice/lattice.hpp" namespace "arcbeam::lattice" nogil:
    cdef struct Link:
        uint32_t source
        uint32_t target
        uint32_t arc
        float slack

    cdef cppclass Lattice:
        vector[uint32_t] first_token
        vector[uint32_t] states
        vector[double] costs
        vector[Link] links
        vector[uint32_t] first_link
        vector[float] end_extras
        vector[uint32_t] best
        double total_cost
        cbool reached_final
        cbool complete


cdef class Lattices:
    cdef vector[Lattice] found  # of each utterance; without tokens where the utterance could not be decoded
