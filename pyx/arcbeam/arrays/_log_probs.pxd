"""Log-probs of utterances for the engines of the CPU: views of memory with other owners."""

from libc.stdint cimport int64_t, uint32_t, uintptr_t
from libcpp cimport bool as cbool
from libcpp.utility cimport move
from libcpp.vector cimport vector


cdef extern from "decode/acoustic.hpp" namespace "arcbeam::twin" nogil:
    cdef struct LogProbs:
        const void* data
        int64_t row_stride
        uint32_t frames
        uint32_t columns
        cbool is_half


cdef inline vector[LogProbs] batch_of(const int64_t[:, ::1] utterances, uint32_t columns) except *:
    """Views from a table: address, row stride in values, frames, and whether the values are float16."""
    cdef vector[LogProbs] batch
    cdef Py_ssize_t i
    batch.reserve(utterances.shape[0])
    for i in range(utterances.shape[0]):
        batch.push_back(LogProbs(
            <const void*> <uintptr_t> utterances[i, 0], utterances[i, 1], <uint32_t> utterances[i, 2], columns,
            utterances[i, 3] != 0,
        ))
    return move(batch)
