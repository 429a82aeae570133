"""Kernels, streams and events. The calls marked nogil belong between ``context.enter()`` and ``context.leave()``.

A kernel has one parameter, a plain struct, which the driver copies before ``launch`` returns.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._driver_table cimport LaunchShape

cdef class Module:
    cdef readonly Context context
    cdef readonly str name
    cdef void* handle
    cdef object __weakref__
    cpdef Function function(self, str name)

cdef class Function:
    cdef readonly Module module
    cdef readonly str name
    cdef readonly int architecture
    cdef bytes name_bytes
    cdef void* handle
    cdef bint has_clusters(self) noexcept nogil
    cdef int allow_shared(self, size_t bytes) except -1 nogil
    cdef int allow_large_clusters(self) except -1 nogil
    cdef int attribute(self, int attribute) except -1 nogil
    cdef int blocks_per_multiprocessor(self, int threads, size_t shared_bytes) except -1 nogil
    cdef int clusters_on_device(self, const LaunchShape* shape) except -1 nogil

cdef class Stream:
    cdef readonly Context context
    cdef void* handle
    cdef int synchronize(self) except -1 nogil
    cdef int is_done(self) except -1 nogil
    cdef int wait_for(self, Event event) except -1 nogil

cdef class Event:
    cdef readonly Context context
    cdef void* handle
    cdef int record(self, Stream stream) except -1 nogil
    cdef int record_on(self, uint64_t stream) except -1 nogil
    cdef int is_done(self) except -1 nogil
    cdef int wait(self, int milliseconds) except -1 nogil
    cdef int milliseconds_since(self, Event start, float* milliseconds) except -1 nogil

cpdef Module load(Context context, str name)
cdef int launch(Function function, const LaunchShape* shape, void* parameter, Stream stream) except -1 nogil
