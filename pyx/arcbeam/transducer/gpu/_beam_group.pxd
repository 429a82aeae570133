"""A group of utterances on its way through a device, searched with a beam."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from arcbeam.gpu._memory cimport DeviceBuffer
from arcbeam.transducer.beam._lists cimport Lists
from arcbeam.transducer.gpu._beam_memory cimport BeamLoopParams, FusionOfBeam
from arcbeam.transducer.gpu._beam_states cimport PackedStates
from arcbeam.transducer.gpu._fusion cimport BeamFusionMemory
from arcbeam.transducer.gpu._group cimport Group
from arcbeam.transducer.gpu._lattices cimport LatticeBeamLoopParams, Lattices
from arcbeam.transducer.gpu._lazy_pool cimport LazyPool


cdef class BeamGroup(Group):
    cdef LatticeBeamLoopParams launched  # the first part where nothing is fused, the first two without lattices
    cdef BeamLoopParams* beam  # the first part
    cdef FusionOfBeam* fused  # the second part
    cdef BeamFusionMemory fusion  # of the batch, None if nothing is fused
    cdef Lattices lattices
    cdef bint keeps_lattices  # of the batch
    cdef bint has_contexts  # whether the batch needs the third part: for lattices, or because hypotheses merge
    cdef DeviceBuffer arena, arena_before  # the latter of the launch before, which had less room
    cdef PackedStates states  # of a batch of chunks
    cdef DeviceBuffer packed
    cdef bint are_streams
    cdef uint64_t returned
    cdef uint64_t arena_bytes
    cdef uint64_t cleared  # bytes of counters and keys
    cdef object options
    cdef LazyPool* threads
    cdef int _reserve_rows(self, uint64_t frames) except -1
    cdef int _lay_out(self, DeviceBuffer arena) except -1
    cdef int _send_lanes(self, const int64_t[:, ::1] utterances) except -1
    cdef int _send_packed(self, const int64_t[:, ::1] utterances) except -1
    cdef int _reserve_packed(self) except -1
    cdef int _measure(self, list states) except -1
    cdef int _collect_packed(self, members, Lists found, list results, list bad) except -1
    cdef uint64_t _fetched_bytes(self) noexcept nogil
