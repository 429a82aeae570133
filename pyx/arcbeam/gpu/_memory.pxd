"""Device and pinned memory, and copies. The calls marked nogil belong between ``context.enter()`` and ``leave()``.

A buffer grows by ``reserve`` and never shrinks. Its address may change then: let copies end first.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Stream

cdef enum:
    PINNED_GRAIN = 1 << 12  # a page

cdef size_t grown(size_t bytes, size_t capacity, size_t grain) noexcept nogil

cdef class MemoryPool:
    cdef readonly Context context
    cdef void* handle
    cdef readonly size_t limit_bytes
    cdef readonly size_t used_bytes
    cdef readonly size_t peak_bytes
    cdef int allocate(self, uint64_t* address, size_t bytes, Stream stream, const char* what) except -1 nogil
    cdef void release(self, uint64_t address, size_t bytes, Stream stream) noexcept nogil
    cdef int trim(self) except -1 nogil
    cdef size_t room(self) noexcept nogil
    cdef int _raise_limit(self, size_t bytes, const char* what) except -1
    cdef int _raise_allocate(self, size_t bytes, const char* what, int code) except -1

cdef class DeviceBuffer:
    cdef readonly MemoryPool pool
    cdef readonly Stream stream
    cdef bytes what_bytes
    cdef const char* what
    cdef readonly uint64_t address
    cdef readonly size_t capacity
    cdef int reserve(self, size_t bytes, bint keep) except -1 nogil
    cdef void clear(self) noexcept nogil

cdef class PinnedBuffer:
    cdef readonly Context context
    cdef void* data
    cdef readonly size_t capacity
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]
    cdef int views
    cdef int reserve(self, size_t bytes) except -1 nogil
    cdef int take(self, size_t bytes) except -1 nogil
    cdef int refuse(self, size_t bytes, int code) except -1 nogil
    cdef void clear(self) noexcept nogil

cdef int copy_to_device(uint64_t to, const void* source, size_t bytes, Stream stream) except -1 nogil
cdef int copy_to_host(void* to, uint64_t source, size_t bytes, Stream stream) except -1 nogil
cdef int copy_on_device(uint64_t to, uint64_t source, size_t bytes, Stream stream) except -1 nogil
cdef int set_bytes(uint64_t to, unsigned char value, size_t count, Stream stream) except -1 nogil
cdef int set_words(uint64_t to, uint32_t value, size_t count, Stream stream) except -1 nogil
