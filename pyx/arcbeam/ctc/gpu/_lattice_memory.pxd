"""The memory through which lattices go from lanes to the host."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from arcbeam.ctc._lattices cimport Lattice, Lattices, Link
from arcbeam.gpu._host_buffers cimport HostBuffer, SharedBuffer
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.ctc.gpu._lanes cimport Lanes
from arcbeam.ctc.gpu._search cimport LatticeParams, UtteranceResult
from arcbeam.graph._graph_view cimport GraphView


cdef extern from "arcbeam/ctc/gpu/_lattice_memory/numberer.hpp" namespace "arcbeam" nogil:
    cdef struct LatticeResult:
        uint64_t begin
        uint32_t steps
        uint32_t links
        uint32_t entries
        uint32_t best_end

    cdef struct WrittenLattice:
        const unsigned char* memory
        LatticeResult place
        double total_cost
        cbool reached_final
        cbool complete
        Lattice* into

    cdef cppclass Numberer:
        Numberer(size_t threads) except +
        void start(const GraphView&, vector[WrittenLattice]) except +
        cbool wait(int milliseconds)
        cbool failed()


cdef class LatticeMemory:
    cdef Stream stream
    cdef object graph
    cdef DeviceBuffer memory, steps
    cdef HostBuffer host
    cdef SharedBuffer pool
    cdef unique_ptr[Numberer] numberer
    cdef size_t threads, lanes_at, results_at, first_step_at, bytes
    cdef vector[cbool] taken  # the utterances of the window whose lattices have been made
    cdef double numbering_s  # that the host has waited for lattices to be numbered
    cdef int begin(self, frames, Lanes lanes, uint32_t num_lanes, float beam, size_t pool_bytes) except -1
    cdef int again(self, Lanes lanes, uint32_t num_lanes) except -1
    cdef const LatticeParams* address(self) noexcept
    cdef uint64_t* _used(self)
    cdef bint is_pinned(self) noexcept nogil
    cdef int ask_back(self) except -1 nogil
    cdef int note_links(self, Lanes lanes, uint32_t num_lanes) except -1
    cdef int take(self, const UtteranceResult* results, order, frames, Lattices into) except -1
    cdef int release(self) except -1
    cdef size_t device_bytes(self)
    cdef size_t pinned_bytes(self)
