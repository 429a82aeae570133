"""The memory of a batch: what is sent to the kernel, and what it leaves for the host."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

from arcbeam.ctc.boost._boost cimport BoostView
from arcbeam.ctc.gpu.searches._rescoring_view cimport NewWordsOnDevice, NewWordsParams
from arcbeam.ctc.gpu.searches._search_view cimport LaneState, SearchParams, StreamView, UtteranceResult, UtteranceView
from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer


# What lanes share.
cdef struct Counters:
    uint32_t queue  # the next utterance in order
    uint32_t paths_used
    uint32_t resting_lanes
    uint32_t stop_soon


# How much a batch has of each.
cdef struct BatchSizes:
    uint32_t utterances
    uint32_t lanes
    size_t pieces
    size_t boosts
    size_t new_words
    size_t streams


# Where each part begins.
cdef struct BatchLayout:
    size_t order
    size_t pieces
    size_t boosts
    size_t new_words
    size_t streams
    size_t counters
    size_t lanes
    size_t results
    size_t paths


cdef class BatchMemory:
    cdef Stream stream
    cdef DeviceBuffer device
    cdef HostBuffer host
    cdef BatchLayout at
    cdef BatchSizes sizes
    cdef uint32_t path_entries, copied_entries, likely_entries
    cdef int lay_out(self, const BatchSizes& sizes, uint32_t path_entries) except -1
    cdef size_t _host_bytes(self) noexcept nogil
    cdef void describe(self, NewWordsParams* params) noexcept
    cdef UtteranceView* utterances(self) noexcept nogil
    cdef uint32_t* order(self) noexcept nogil
    cdef uint32_t* pieces(self) noexcept nogil
    cdef BoostView* boosts(self) noexcept nogil
    cdef NewWordsOnDevice* new_words(self) noexcept nogil
    cdef StreamView* streams(self) noexcept nogil
    cdef Counters* counters(self) noexcept nogil
    cdef Counters* _device_counters(self) noexcept nogil
    cdef LaneState* lanes(self) noexcept nogil
    cdef const UtteranceResult* results(self) noexcept nogil
    cdef const uint32_t* paths(self) except NULL
    cdef int send(self) except -1
    cdef int send_stream(self, uint32_t utterance) except -1
    cdef int send_lanes(self, uint32_t lanes) except -1
    cdef int copy_back(self) except -1 nogil
    cdef int grow_paths(self) except -1
    cdef int stop(self, Stream copies) except -1
    cdef int clear(self) except -1
    cdef int release(self) except -1
    cdef size_t path_bytes(self) noexcept
    cdef size_t other_bytes(self) noexcept
