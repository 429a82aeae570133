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


cdef tuple labels_of(const Labels& labels)
cdef copied(const void* data, size_t size, dtype)


cdef class Lists:
    cdef vector[NBest] of
