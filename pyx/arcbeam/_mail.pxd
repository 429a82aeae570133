"""The mail of an engine's lanes to the host, see ``cuda/rescore/mail.hpp``: its memory, and who answers."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t
from libcpp.vector cimport vector

from arcbeam._cuda cimport Context
from arcbeam._cuda_launch cimport Stream
from arcbeam._cuda_memory cimport DeviceBuffer, MemoryPool, PinnedBuffer
from arcbeam._requests cimport Asks, HostLookups, MailView
from arcbeam._rescoring_search cimport RescoringParams


cdef class LaneMail:
    cdef Context context
    cdef Stream stream
    cdef Asks asks
    cdef HostLookups lookups
    cdef DeviceBuffer tables
    cdef PinnedBuffer boxes, words
    cdef vector[MailView] lanes
    cdef uint32_t size
    cdef size_t histories
    cdef int begin_batch(self) except -1
    cdef int begin(self, uint32_t lanes, RescoringParams* params) except -1
    cdef int watch(self) except -1
    cdef void rest(self) noexcept nogil
    cdef int answer(self, bint wants_room, RescoringParams* params) except -1
    cdef int clear(self) except -1
    cdef size_t device_bytes(self)
    cdef int _clear(self, RescoringParams* params) except -1
    cdef int _more_words(self) except -1
    cdef int _pin(self, PinnedBuffer buffer, size_t bytes) except -1
    cdef size_t pinned_bytes(self)
