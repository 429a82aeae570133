"""The memory through which lattices go from lanes to the host."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.ctc.lattice._lattice cimport AnswerEngine, LatticePool
from arcbeam.ctc.lattice._lattices cimport Lattice, Lattices
from arcbeam.gpu._host_buffers cimport HostBuffer, SharedBuffer
from arcbeam.gpu._launch cimport Event, Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.ctc.gpu.searches._lanes cimport Lanes
from arcbeam.ctc.gpu.searches._search_view cimport LatticeParams, LatticeResult, StreamLinksView
from arcbeam.ctc.gpu._streams cimport CudaStream
from arcbeam.graph._graph_view cimport GraphView, NewWordsView


cdef extern from "arcbeam/ctc/gpu/_lattice_memory/numberer.hpp" namespace "arcbeam" nogil:
    cdef struct PendingLattice:
        const LatticeResult* result
        Lattice* into
        const NewWordsView* new_words
        size_t utterance

    cdef cppclass Numberer:
        void begin(LatticePool&, const GraphView&, vector[PendingLattice]) except +
        void start(const unsigned char*)
        void poll() except +
        cbool wait_for_numbers(int milliseconds)
        void finish()
        cbool wait(int milliseconds)
        void cancel()
        cbool failed()


cdef class LatticeMemory:
    cdef Stream stream
    cdef object graph
    cdef DeviceBuffer memory, steps
    cdef HostBuffer host
    cdef SharedBuffer pool, results
    cdef Numberer numberer
    cdef AnswerEngine answers  # whose threads number
    cdef size_t lanes_at, first_step_at, streams_at, bytes
    cdef bint at_work  # threads make lattices, or answer them
    cdef int begin(self, order, frames, Lattices into, bint keeps, Lanes lanes, uint32_t num_lanes, float beam,
                   size_t pool_bytes, list boosts, list streams) except -1
    cdef int grow_stream(self, CudaStream stream, uint32_t utterance, uint32_t links) except -1
    cdef StreamLinksView* _stream_views(self)
    cdef int again(self, Lanes lanes, uint32_t num_lanes) except -1
    cdef const LatticeParams* address(self) noexcept
    cdef uint64_t* _used(self)
    cdef bint is_pinned(self) noexcept nogil
    cdef int copy_back(self) except -1 nogil
    cdef int wait(self, Event done, int milliseconds) except -1 nogil
    cdef int take(self, Lanes lanes, uint32_t num_lanes) except -1
    cdef int finish(self) except -1
    cdef int cancel(self) except -1
    cdef int release(self) except -1
    cdef size_t device_bytes(self)
    cdef size_t pinned_bytes(self)
