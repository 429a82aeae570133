"""Memory of the host that kernels read in place.

    cdef FarBuffer far = FarBuffer(context)
    far.resize(bytes)                                       # once; host threads fill far.data, and then kernels read it
"""

from libc.stddef cimport size_t

from arcbeam._cuda cimport Context
from arcbeam._cuda_memory cimport PinnedBuffer

cdef class FarBuffer:
    cdef readonly Context context
    cdef void* data
    cdef readonly size_t capacity
    cdef readonly bint managed
    cdef PinnedBuffer pinned
    cdef int _manage(self, size_t bytes) except -1
