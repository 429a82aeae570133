"""Host memory for copies, and for data that kernels read. The calls belong between ``context.enter()`` and ``leave()``.

``reserve`` may change ``data``: let copies, and kernels that read it, end first.
"""

from libc.stddef cimport size_t

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._memory cimport PinnedBuffer

cdef class HostBuffer:
    cdef PinnedBuffer pinned
    cdef void* data
    cdef void* pageable
    cdef readonly size_t capacity
    cdef int reserve(self, size_t bytes) except -1 nogil
    cdef bint is_pinned(self) noexcept nogil
    cdef size_t pinned_bytes(self) noexcept nogil

cdef class SharedBuffer:
    cdef readonly Context context
    cdef PinnedBuffer pinned
    cdef void* data
    cdef readonly size_t capacity, pinned_most
    cdef readonly bint managed
    cdef int reserve(self, size_t bytes) except -1
    cdef int _pin(self, size_t bytes) except -1
    cdef bint _manage(self, size_t bytes) except -1
    cdef void _clear(self) noexcept
