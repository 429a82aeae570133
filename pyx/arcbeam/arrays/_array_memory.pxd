"""Checks whether kernels of a device may read all of an array made elsewhere, without trusting what its maker says."""

from libc.stdint cimport int64_t
from libcpp.unordered_map cimport unordered_map

from arcbeam.gpu._cuda cimport Context

cdef struct Span:  # a range of addresses
    int64_t begin
    int64_t end

cdef class DeviceMemory:
    cdef Context context
    cdef readonly int ordinal
    cdef unordered_map[int64_t, Span] pages
    cdef bint has(self, int64_t address, int64_t begin, int64_t end) except -1
    cdef bint has_rows(self, int64_t address, int64_t frames, int64_t columns, int64_t row_stride,
                       int value_bytes) except -1
