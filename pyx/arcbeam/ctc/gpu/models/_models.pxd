"""Language models as kernels read them, and everything else that rescoring needs on a device."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.gpu._host_buffers cimport HostBuffer, SharedBuffer
from arcbeam.lm._lm_buckets cimport LmBuckets
from arcbeam.lm._kenlm_view cimport KenLmView
from arcbeam.lm._lm_view cimport LmView
from arcbeam.ctc.gpu.models._request_buffers cimport LaneRequests
from arcbeam.gpu._registered_memory cimport RegisteredMemory
from arcbeam.ctc.gpu.searches._rescoring_view cimport RescoringParams, SharedBits


cdef class DeviceModel:
    cdef readonly Context context
    cdef readonly object source
    cdef readonly size_t device_bytes, pinned_bytes, bucketed_bytes
    cdef LmView view
    cdef LmBuckets buckets
    cdef MemoryPool pool
    cdef DeviceBuffer memory
    cdef SharedBuffer far
    cdef int _fill_buckets(self) except -1
    cdef object __weakref__


cdef class DeviceWords:
    cdef readonly Context context
    cdef readonly object source
    cdef readonly size_t bytes
    cdef readonly bint of_epsilons
    cdef MemoryPool pool
    cdef DeviceBuffer memory
    cdef object __weakref__


cdef class DeviceRescoring:
    cdef readonly object placement
    cdef object rescoring
    cdef KenLmView host_view  # the models as the host reads them
    cdef SharedBits bits
    cdef DeviceModel large, small  # large is None if the host has the model
    cdef LaneRequests requests  # None unless lanes send requests to the host
    cdef object requests_before  # rounds, bytes and batches of answers
    cdef DeviceWords words
    cdef MemoryPool pool
    cdef DeviceBuffer large_labels, small_labels, counters, cache
    cdef RegisteredMemory arcs  # for "host": the arcs that threads of the host read; otherwise None
    cdef HostBuffer counted
    cdef uint32_t hypotheses_per_state
    cdef size_t lookup_threads
    cdef int _check_limit(self, size_t memory_limit, size_t needed) except -1
    cdef int _place_large(self, Context context, size_t model_bytes, size_t index_bytes, size_t free_bytes, gpu_budget,
                          arc_cache) except -1
    cdef int _place_unpinned(self, Context context, size_t model_bytes, size_t index_bytes, size_t free_bytes, gpu_budget,
                             arc_cache, error) except -1
    cdef DeviceBuffer _send(self, column, Stream stream)
    cdef int describe(self, RescoringParams* params) except -1
    cdef int check_boosts(self, list lists) except -1
    cdef uint64_t _large_states(self) noexcept
    cdef LaneRequests open_requests(self, MemoryPool pool, Stream stream)
    cdef int begin_batch(self, Stream stream) except -1
    cdef int begin(self, uint32_t lanes, RescoringParams* params) except -1
    cdef int copy_back(self, Stream stream) except -1 nogil
    cdef int _pin_arcs(self, Context context, bint warned) except -1
    cdef size_t device_bytes(self)
    cdef size_t pinned_bytes(self)
    cdef size_t bucketed_bytes(self)


cdef DeviceWords device_words(graph, Context context)
