"""Log-probs of logits on a device. Make all calls between ``context.enter()`` and ``context.leave()``."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._launch cimport Function, Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool

cdef extern from "arrays/log_softmax.hpp" namespace "arcbeam" nogil:
    cdef struct LogitsView:
        const void* logits
        int64_t row_stride
        int64_t is_half
        uint64_t first_row

    cdef struct LogSoftmaxParams:
        const LogitsView* utterances
        uint64_t rows
        uint32_t num_utterances
        uint32_t columns
        float* log_probs


cdef class DeviceLogSoftmax:
    cdef Stream stream
    cdef Function kernel
    cdef DeviceBuffer views, rows
    cdef HostBuffer sent  # the views on the host
    cdef object log_probs(self, utterances, are_logits, uint32_t columns)
    cdef int clear(self) except -1
    cdef int release(self) except -1
    cdef size_t device_bytes(self) noexcept
    cdef size_t pinned_bytes(self)
