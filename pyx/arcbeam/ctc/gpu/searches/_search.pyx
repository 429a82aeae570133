"""The memory in which a search on a device works: the graph's columns, shared by its decoders, and lanes."""

import threading
import weakref

import numpy as np

cimport cython
from libc.stdint cimport uint16_t, uint32_t, uint64_t, uintptr_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool, copy_on_device, set_bytes
from arcbeam.graph._graph_view cimport ArcTarget
from arcbeam.ctc.gpu.searches._search_view cimport (
    LaneState, LogEntry, StateRow, kNoIndex, lattice_costs_bytes, links_bytes, log_bytes, shared_bytes, table_bytes,
    tokens_bytes, workspace_bytes,
)
from arcbeam.ctc.gpu.searches._rescoring_view cimport (
    History, rescoring_free_bytes, rescoring_shared_bytes, rescoring_tokens_bytes, rescoring_workspace_bytes,
)

from arcbeam.ctc.gpu.searches import graph_layout
from arcbeam.ctc.gpu.models import new_words_layout
from arcbeam.core.errors import CapacityError

_lock = threading.Lock()
_graphs = weakref.WeakValueDictionary()


class TooManyTokens(CapacityError):
    """More tokens than the engine can number: only a smaller beam helps."""


@cython.no_gc
cdef class DeviceGraph:
    """The columns of a graph that the search reads, on one device; words stay on the host."""

    def __cinit__(self, graph, Context context not None):
        self.context = context
        self.source = graph  # keeps it alive, so that no other graph gets the same identity
        self.stream = Stream(context)
        self.pool = MemoryPool(context)
        self.states = self._send(graph_layout.state_rows(graph.states, graph.targets, graph.words, graph.open_slot))
        self.targets = self._send(graph.targets)
        labels = graph_layout.labels(graph.states, graph.targets, graph.columns, graph.num_columns)
        self.labels = self._send(labels)
        self.last_labels = new_words_layout.last_labels(labels, graph.num_arcs)
        self.finals = self._send(graph.finals)
        self.bytes = self.pool.used_bytes
        self.view.states = <const StateRow*> <uintptr_t> self.states.address
        self.view.targets = <const ArcTarget*> <uintptr_t> self.targets.address
        self.view.labels = <const uint16_t*> <uintptr_t> self.labels.address
        self.view.finals = <const float*> <uintptr_t> self.finals.address
        self.view.start = graph.start
        self.view.column_bits = graph_layout.column_bits(graph.num_columns)

    cdef DeviceBuffer _send(self, column):
        buffer = DeviceBuffer(self.pool, self.stream, "the graph")
        buffer.write(np.ascontiguousarray(column).reshape(-1).view(np.uint8))
        return buffer


cpdef DeviceGraph device_graph(graph, Context context):
    """The graph on the context's device. It is sent once and freed with its last decoder."""
    key = (id(graph), <uintptr_t> <void*> context)
    with _lock:
        found = _graphs.get(key)
        if found is None:
            found = _graphs[key] = DeviceGraph(graph, context)
    return found


@cython.final
cdef class SearchKind:
    """A `SearchKernel`, and a lane's memory by the tokens of a frame; twice as many candidates fit."""

    def __cinit__(self, kernel):
        self.kernel, self.rescores = kernel, kernel.rescores

    cdef uint64_t tokens_bytes(self, uint64_t capacity) noexcept nogil:
        return rescoring_tokens_bytes(capacity) if self.rescores else tokens_bytes(capacity)

    cdef uint64_t table_bytes(self, uint64_t capacity) noexcept nogil:
        """The first bytes of a workspace: all bits 1 where the tables are free."""
        return rescoring_free_bytes(2 * capacity) if self.rescores else table_bytes(2 * capacity)

    cdef uint64_t workspace_bytes(self, uint64_t capacity) noexcept nogil:
        if self.rescores:
            return rescoring_workspace_bytes(capacity, 2 * capacity, 2 * capacity)
        return workspace_bytes(capacity, 2 * capacity, 2 * capacity)

    cdef uint64_t shared_bytes(self, uint64_t threads, uint64_t columns, uint64_t capacity) noexcept nogil:
        """Shared memory of a block."""
        if self.rescores:
            return rescoring_shared_bytes(threads, columns, capacity, 2 * capacity, 2 * capacity)
        return shared_bytes(threads, columns, capacity, 2 * capacity, 2 * capacity)

    cdef uint64_t spill_bytes(self, uint64_t capacity) noexcept nogil:
        return self.tokens_bytes(capacity) + self.workspace_bytes(capacity)


@cython.no_gc
cdef class LaneRoom:
    """Memory of one lane: room for the frames that shared memory cannot hold, and the token log."""

    def __cinit__(self, SearchKind kind not None, MemoryPool pool not None, Stream stream not None):
        self.kind = kind
        self.pool = pool
        self.stream = stream
        self.work = DeviceBuffer(pool, stream, "the tokens of a frame")
        self.tokens = DeviceBuffer(pool, stream, "the tokens of a frame")
        self.log = DeviceBuffer(pool, stream, "the token log")
        self.costs = DeviceBuffer(pool, stream, "the costs of a lattice")
        self.links = DeviceBuffer(pool, stream, "the links of a lattice")

    cdef int grow_spill(self, uint32_t capacity, uint32_t num_tokens) except -1:
        """Makes room for so many states; the tokens that wait there move along."""
        cdef DeviceBuffer tokens
        if self.kind.rescores:
            capacity = (capacity + 3) // 4 * 4
        if capacity <= self.capacity:
            return 0
        if capacity > 1 << 29:
            raise TooManyTokens("a frame has more than 2**29 tokens: use a smaller beam or max_active")
        tokens = DeviceBuffer(self.pool, self.stream, "the tokens of a frame")
        tokens.reserve(self.kind.tokens_bytes(capacity), False)
        if num_tokens:
            self._move(tokens, 0, 0, 16 * <uint64_t> num_tokens)
            self._move(tokens, 16 * <uint64_t> capacity, 16 * <uint64_t> self.capacity,  # their states follow them
                       4 * <uint64_t> num_tokens)
            if self.kind.rescores:
                self._move(tokens, tokens_bytes(capacity), tokens_bytes(self.capacity), sizeof(History) * num_tokens)
        self.capacity = 0
        self.work.reserve(self.kind.workspace_bytes(capacity), False)
        set_bytes(self.work.address, 0xff, self.kind.table_bytes(capacity), self.stream)
        self.tokens = tokens
        self.capacity = capacity
        return 0

    cdef int _move(self, DeviceBuffer to, uint64_t offset, uint64_t old_offset, uint64_t count) except -1:
        return copy_on_device(to.address + offset, self.tokens.address + old_offset, count, self.stream)

    cdef int grow_log(self, uint64_t entries) except -1:
        """Makes a log of at least so many entries and keeps its content."""
        if entries <= self.log_entries:
            return 0
        if entries >= kNoIndex:
            raise TooManyTokens("an utterance keeps more than 2**32 tokens alive: use a smaller beam or max_active")
        self.log.reserve(log_bytes(<uint32_t> entries), True)
        self.log_entries = <uint32_t> entries
        if self.link_capacity:
            self.costs.reserve(lattice_costs_bytes(self.log_entries), True)
        return 0

    cdef int grow_links(self, uint64_t links) except -1:
        """Makes room for links of a lattice and for the costs of all entries of the log; keeps their content."""
        if links <= self.link_capacity:
            return 0
        if links >= kNoIndex:
            raise TooManyTokens("the lattice of an utterance has more than 2**32 links: use a smaller lattice_beam")
        self.costs.reserve(lattice_costs_bytes(self.log_entries), True)
        self.links.reserve(links_bytes(<uint32_t> links), True)
        self.link_capacity = <uint32_t> links
        return 0

    cdef int describe(self, LaneState* lane) except -1:
        """Passes the addresses of the memory to the kernel; no other state of the lane changes."""
        lane.spill.memory = <unsigned char*> <uintptr_t> self.work.address
        lane.spill.tokens = <unsigned char*> <uintptr_t> self.tokens.address
        lane.spill.capacity = self.capacity
        lane.spill.candidates = 2 * self.capacity
        lane.spill.table_size = 2 * self.capacity
        lane.log = <LogEntry*> <uintptr_t> self.log.address
        lane.log_capacity = self.log_entries
        return 0
