"""Labels and n-best lists as an engine finds them, and their arrays."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.vector cimport vector


cdef extern from "transducer/labels.hpp" namespace "arcbeam::transducer" nogil:
    cdef cppclass Labels:
        vector[uint32_t] tokens
        vector[int64_t] frames
        vector[uint32_t] durations
        vector[float] log_probs
        vector[float] confidences

    cdef cppclass Shares:
        double& operator[](size_t)

    cdef cppclass NBest(Labels):
        vector[uint64_t] ends
        vector[double] scores
        vector[double] posteriors
        vector[Shares] shares


cdef extern from "transducer/beam/lattice.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct LatticeArc:
        uint32_t source
        uint32_t target
        uint32_t label
        uint32_t duration
        float log_prob
        float score

    cdef cppclass Lattice:
        vector[int64_t] frames
        vector[uint32_t] depths
        vector[LatticeArc] arcs


cdef tuple labels_of(const Labels& labels)
cdef copied(const void* data, size_t size, dtype)


cdef class Entries:
    cdef tuple arrays  # of all of them, one after the other
    cdef vector[uint64_t] ends
    cdef vector[double] scores
    cdef vector[double] posteriors
    cdef vector[Shares] shares


cdef class Lists:
    cdef vector[NBest] of
    cdef vector[Lattice] lattices  # if they are kept
