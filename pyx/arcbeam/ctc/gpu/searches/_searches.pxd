"""What an engine keeps for each kind of search."""

from libc.stddef cimport size_t

from arcbeam.ctc.gpu.searches._lanes cimport Lanes
from arcbeam.ctc.gpu.searches._launches cimport Launches
from arcbeam.ctc.gpu.searches._search cimport SearchKind
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport MemoryPool


cdef class Search:
    cdef MemoryPool pool
    cdef SearchKind kind
    cdef Lanes lanes
    cdef dict loaded  # entries by the name of their kernels
    cdef Launches entries(self, bint lattices, bint streams)


cdef class Searches:
    cdef MemoryPool pool
    cdef Stream stream
    cdef object model
    cdef Search plain, boosted, opened  # the last two are None until a batch needs them
    cdef Search search(self, boosts)
    cdef Search of(self, bint boosted, bint opens)
    cdef list all(self)
    cdef int clear(self) except -1
    cdef size_t room_bytes(self)
    cdef size_t log_bytes(self)
