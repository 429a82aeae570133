"""The requests of an engine's lanes to the host, see ``cuda/shared/requests.hpp``: memory, and threads that answer."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t
from libcpp.vector cimport vector

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Event, Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.gpu._driver_table cimport DriverTable
from arcbeam.gpu._host_buffers cimport HostBuffer, SharedBuffer
from arcbeam.ctc.gpu.models._requests cimport AnswerCopier, HostLookups, Requested, RequestView
from arcbeam.ctc.gpu.searches._rescoring_view cimport RescoringParams

cdef extern from "arcbeam/ctc/gpu/_driver_copier.hpp" namespace "arcbeam::gpu" nogil:
    cdef struct HalfHandles:
        void* copying
        void* counting
        void* sent
        void* notified

    cdef cppclass DriverCopier(AnswerCopier):
        DriverCopier(const DriverTable*, void* context, const HalfHandles&, const HalfHandles&) except +


cdef class Half:
    cdef Stream copying, counting
    cdef Event sent, notified
    cdef HalfHandles handles(self)


cdef class LaneRequests:
    cdef Context context
    cdef Stream stream
    cdef Requested requested
    cdef HostLookups lookups
    cdef tuple halves  # for Requested.arcs: the handles that copies of each half need
    cdef DeviceBuffer tables, answer_buffers
    cdef SharedBuffer buffers, words
    cdef HostBuffer outgoing
    cdef vector[RequestView] lanes
    cdef uint32_t size
    cdef size_t histories
    cdef object numbered  # each CudaStream that is alive, by its id: their states have numbers of histories
    cdef size_t kept_by_streams  # so many histories, when numbers were last given anew
    cdef int begin_batch(self) except -1
    cdef int begin(self, uint32_t lanes, RescoringParams* params) except -1
    cdef int watch(self) except -1
    cdef void stop(self) noexcept nogil
    cdef int check(self) except -1
    cdef int answer(self, bint wants_room, RescoringParams* params) except -1
    cdef int clear(self) except -1
    cdef int release(self) except -1
    cdef int _begin_histories(self) except -1
    cdef int _number_anew(self, size_t histories) except -1
    cdef size_t device_bytes(self)
    cdef int _clear(self, RescoringParams* params) except -1
    cdef int _have_answer_buffers(self) except -1
    cdef int make_room(self) except -1
    cdef int _share(self, SharedBuffer buffer, size_t bytes) except -1
    cdef size_t pinned_bytes(self)
