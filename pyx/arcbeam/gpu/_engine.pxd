"""What the engines of both decoders share on a device."""

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport MemoryPool

cdef class BatchEngine:
    cdef readonly Context context
    cdef readonly Stream stream  # of kernels
    cdef Stream copies
    cdef MemoryPool pool
    cdef object lock
    cdef int halvings  # of what is decoded together, because memory was short
    cdef int open(self, int ordinal) except -1
    cdef object decode_with_retry(self, tuple batch)
    cdef int give_back(self) except -1
    cdef object attempt(self, tuple batch)
    cdef bint shrink(self, error) except -1
    cdef int free(self) except -1
    cdef int free_pinned(self) except -1
