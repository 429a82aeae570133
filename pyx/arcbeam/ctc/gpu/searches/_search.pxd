"""The kinds of the search, a graph on a device, and the memory of a lane."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.ctc.gpu.searches._search_view cimport DeviceGraphView, LaneState


cdef class SearchKind:
    cdef readonly object kernel
    cdef bint rescores
    cdef uint64_t tokens_bytes(self, uint64_t capacity) noexcept nogil
    cdef uint64_t table_bytes(self, uint64_t capacity) noexcept nogil
    cdef uint64_t workspace_bytes(self, uint64_t capacity) noexcept nogil
    cdef uint64_t shared_bytes(self, uint64_t threads, uint64_t columns, uint64_t capacity) noexcept nogil
    cdef uint64_t spill_bytes(self, uint64_t capacity) noexcept nogil


cdef class DeviceGraph:
    cdef readonly Context context
    cdef readonly object source
    cdef object last_labels  # uint16: those that do not fill a chunk
    cdef readonly size_t bytes
    cdef DeviceGraphView view
    cdef MemoryPool pool
    cdef Stream stream
    cdef DeviceBuffer states, targets, labels, finals
    cdef object __weakref__
    cdef DeviceBuffer _send(self, column)

cpdef DeviceGraph device_graph(graph, Context context)


cdef class LaneRoom:
    cdef SearchKind kind
    cdef MemoryPool pool
    cdef Stream stream
    cdef DeviceBuffer work, tokens, log, costs, links
    cdef uint32_t capacity, log_entries
    cdef uint32_t link_capacity, num_links  # of lattices; 0 until one is requested
    cdef int grow_spill(self, uint32_t capacity, uint32_t num_tokens) except -1
    cdef int _move(self, DeviceBuffer to, uint64_t offset, uint64_t old_offset, uint64_t count) except -1
    cdef int grow_log(self, uint64_t entries) except -1
    cdef int grow_links(self, uint64_t links) except -1
    cdef int describe(self, LaneState* lane) except -1

