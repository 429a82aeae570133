"""The lanes of an engine: their memory, and what they lack after a launch."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport MemoryPool
from arcbeam.ctc.gpu.searches._search cimport SearchKind
from arcbeam.ctc.gpu.searches._search_view cimport LaneState, LatticeLane


# What lanes lack after a launch.
cdef struct Undone:
    uint32_t lanes  # number of lanes that have stopped
    bint paths  # the pool of paths is full
    bint requests  # some lane has no room for its questions
    bint streams  # some lane has no room for the state of its stream


cdef class Lanes:
    cdef SearchKind kind
    cdef MemoryPool pool
    cdef Stream stream
    cdef list rooms
    cdef readonly uint32_t most_states  # most states that any lane has needed room for
    cdef uint32_t had_lanes  # so many lanes have this room, and need no further check
    cdef uint64_t had_states, had_log_entries
    cdef int have(self, uint32_t lanes, uint64_t states, uint64_t log_entries) except -1
    cdef int begin(self, LaneState* states, uint32_t lanes) except -1
    cdef int grow(self, LaneState* states, uint32_t lanes, Undone* undone) except -1
    cdef int keep_stopped(self, LaneState* states, uint32_t lanes) except -1
    cdef int have_spills(self, LaneState* states, uint32_t lanes, uint32_t capacity) except -1
    cdef int have_links(self, uint32_t lanes, uint64_t links) except -1
    cdef int forget_links(self) except -1
    cdef int describe_links(self, LatticeLane* states, uint32_t lanes) except -1
    cdef uint32_t links_of(self, uint32_t lane) except? 0
    cdef int note_links(self, const LatticeLane* states, uint32_t lanes) except -1
    cdef int clear(self) except -1
    cdef size_t room_bytes(self)
    cdef size_t log_bytes(self)
