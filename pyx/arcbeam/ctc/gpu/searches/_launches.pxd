"""Launches the search kernel on a device: its entries, and how many lanes fit in each shape."""

from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Function, Stream
from arcbeam.gpu._driver_table cimport LaunchShape
from arcbeam.ctc.gpu.searches._search cimport SearchKind
from arcbeam.ctc.gpu.searches._search_view cimport SearchParams


cdef class Launches:
    cdef Context context
    cdef SearchKind kind
    cdef dict entries, fits
    cdef Function entry  # of the current launch
    cdef LaunchShape shape
    cdef object choose(self, uint32_t utterances, uint32_t columns, room, tokens)
    cdef uint32_t lanes_of(self, shape, uint32_t columns, room) except? 0xffffffff
    cdef int take(self, shape, uint32_t columns, room, uint32_t lanes, SearchParams* params) except -1
    cdef object cluster(self)
    cdef int start(self, SearchParams* params, Stream stream) except -1
    cdef tuple _fit(self, shape, uint32_t columns, shared_states)
    cdef uint64_t _shared_bytes_of(self, shape, uint64_t of_multiprocessor)
    cdef uint32_t _most_columns(self)
