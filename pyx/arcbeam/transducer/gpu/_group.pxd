"""A group of utterances on its way through a device."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t

from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.transducer.gpu._network cimport EncoderView, LoopParams, Precision, ProjectParams


cdef struct Layout:  # of a group's control memory, the same on both sides: words, lanes, contexts | views, bad, groups
    size_t lanes
    size_t contexts
    size_t returned  # bytes that come back: all before this
    size_t views
    size_t bad
    size_t groups
    size_t bytes


cdef class Group:
    cdef MemoryPool pool
    cdef Stream stream
    cdef Precision precision
    cdef LoopParams params
    cdef Layout layout
    cdef DeviceBuffer frames, projected, control, work, records
    cdef HostBuffer frames_host, control_host, results_host
    cdef size_t cell_at, predictions_at, joined_at, keys_at, logits_at
    cdef uint32_t joint_stride, unit_stride, room, num_groups
    cdef dict memory(self)
    cdef void clear(self) noexcept nogil
    cdef int release(self) except -1
    cdef int begin(self, const int64_t[:, ::1] utterances, list states, bint on_host) except -1
    cdef uint64_t _count_frames(self, const int64_t[:, ::1] utterances) noexcept
    cdef int _reserve_projected(self, uint64_t rows) except -1
    cdef void* launch_params(self) noexcept
    cdef void describe(self, ProjectParams* params) noexcept
    cdef int prepare(self) except -1
    cdef int fetch(self) except -1 nogil
    cdef bint fetches_at_once(self) noexcept nogil
    cdef int grow(self) except -1
    cdef uint32_t status(self) noexcept
    cdef uint32_t ending(self) noexcept
    cdef uint32_t* cancel_flag(self) noexcept
    cdef uint64_t cancel_flag_address(self) noexcept
    cdef int collect(self, members, list states, fused, list results, list bad) except -1
    cdef size_t _record_bytes(self) noexcept nogil
    cdef uint64_t _send_frames(self, const int64_t[:, ::1] utterances) except? 0
    cdef int _fill_control(self, const int64_t[:, ::1] utterances, list states, uint64_t sent) except -1
    cdef int _fill_contexts(self, list states) except -1
    cdef int _send_states(self, list states, size_t values) except -1
