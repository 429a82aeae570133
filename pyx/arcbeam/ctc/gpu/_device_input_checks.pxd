"""Checks frames of arrays on a device. Make all calls between ``context.enter()`` and ``context.leave()``."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t
from libcpp.vector cimport vector

from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.arrays._input_checks cimport InputChecks, Pick


cdef class DeviceInputChecks:
    cdef Stream stream
    cdef HostBuffer rows
    cdef vector[Pick] picks
    cdef size_t fetched
    cdef int fetch(self, InputChecks checks, const int64_t[:, ::1] utterances, bint of_streams) except -1
    cdef int check(self, InputChecks checks) except -1
    cdef void* _row(self, size_t i, uint32_t columns) noexcept
    cdef size_t pinned_bytes(self)
    cdef int release(self) except -1
