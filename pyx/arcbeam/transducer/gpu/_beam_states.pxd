"""States of streams on their way to a device and back."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.transducer.beam._lists cimport Lists
from arcbeam.transducer.gpu._lazy_pool cimport LazyPool


cdef extern from "transducer/beam/device_state.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct PackedSizes:
        uint32_t frames
        uint32_t has_models
        uint32_t layers
        uint32_t unit_stride
        uint32_t value_bytes
        uint32_t context


cdef class PackedStates:
    cdef HostBuffer host  # what is sent, and then what comes back
    cdef PackedSizes sizes
    cdef uint32_t units
    cdef list states  # those before the chunks; none of a batch of whole utterances
    # Of one stream the most arrivals in a bucket, histories, labels and predictions; of all the predictions, and where
    # their slots are listed; the bytes of all.
    cdef uint32_t bucket, nodes, labels, slots, restored
    cdef uint64_t restored_at, bytes
    cdef uint64_t expected  # bytes to come back
    cdef int measure(self, list states) except -1
    cdef int pack(self, const int64_t[:, ::1] utterances, uint32_t slots, LazyPool& threads) except -1
    cdef uint64_t most_bytes(self, uint64_t bucket, uint64_t nodes, uint64_t labels, uint64_t slots) noexcept
    cdef uint64_t returned(self) noexcept
    cdef int collect(self, members, options, bint has_durations, bint has_confidences, LazyPool& threads, Lists found,
                     list results, list bad) except -1
