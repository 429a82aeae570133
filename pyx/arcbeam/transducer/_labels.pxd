"""Labels as an engine finds them, and their arrays."""

from libc.stdint cimport int64_t, uint32_t
from libcpp.vector cimport vector


cdef extern from "transducer/labels.hpp" namespace "arcbeam::transducer" nogil:
    cdef cppclass Labels:
        vector[uint32_t] tokens
        vector[int64_t] frames
        vector[uint32_t] durations
        vector[float] log_probs
        vector[float] confidences

    cdef cppclass Alternative(Labels):
        double score
        double posterior


cdef tuple labels_of(const Labels& labels)
cdef list entries_of(const vector[Alternative]& nbest)
cdef copied(const void* data, size_t size, dtype)
