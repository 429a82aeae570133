"""The lattices and contexts of a group of utterances that is searched with a beam."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t
from libcpp.vector cimport vector

from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.transducer.beam._lists cimport Lattice
from arcbeam.transducer.gpu._beam_memory cimport FusedBeamLoopParams, Lane
from arcbeam.transducer.gpu._lazy_pool cimport LazyPool

cdef extern from "transducer/beam/lattice_memory.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef cppclass TokenRecord:
        pass

    cdef cppclass ArcRecord:
        pass

    cdef struct LatticeRooms:
        uint32_t tokens
        uint32_t arcs
        uint32_t nodes

    cdef struct LatticeCounts:
        uint32_t tokens
        uint32_t arcs

    cdef cppclass LatticeMemory:
        LatticeCounts* counts
        TokenRecord* tokens
        ArcRecord* arcs
        uint32_t* contexts
        LatticeRooms rooms

    cdef cppclass LatticeParams:
        LatticeMemory memory
        LatticeMemory before
        uint32_t keeps
        uint32_t merge_context

    cdef cppclass LatticeBeamLoopParams:
        FusedBeamLoopParams search
        LatticeParams lattices

    uint64_t lay_out_lattices(uint64_t lanes, uint64_t at, LatticeParams& params)

cdef extern from "arcbeam/transducer/gpu/_lattices/recorded_lattice.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct Recorded:
        const TokenRecord* tokens
        size_t num_tokens
        const ArcRecord* arcs
        size_t num_arcs
        const uint32_t* contexts
        const uint32_t* durations
        uint32_t frames
        uint32_t blank
        uint32_t max_symbols

    void make_lattices(const vector[Recorded]&, LazyPool&, vector[Lattice]&) except +

cdef extern from "arcbeam/transducer/gpu/_lattices/row_copies.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct Copy:
        uint64_t from_ "from"
        uint64_t to
        uint64_t bytes

    cdef cppclass RowCopies:
        vector[uint64_t] add(uint64_t array, uint64_t row_bytes, const vector[uint64_t]& used) except +
        const vector[Copy]& all()
        uint64_t bytes()


cdef class Lattices:
    cdef MemoryPool pool
    cdef Stream stream
    cdef object options
    cdef LatticeParams* params  # of the launch
    cdef DeviceBuffer arena, before  # the latter of the launch before, which had less room
    cdef HostBuffer host  # what kernels have written down
    cdef uint32_t lanes
    cdef uint64_t capacity(self) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef int begin(self, LatticeParams* params, uint32_t lanes, uint32_t frames, uint32_t nodes, bint keeps) except -1
    cdef int grow(self, uint32_t nodes) except -1
    cdef int release(self) except -1
    cdef int collect(self, const Lane* lanes, uint32_t blank, LazyPool& threads, vector[Lattice]& into) except -1
    cdef int _lay_out(self, DeviceBuffer arena) except -1
