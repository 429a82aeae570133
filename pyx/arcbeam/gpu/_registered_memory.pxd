"""Arrays of the host that are page-locked in place."""

from libc.stddef cimport size_t

from arcbeam.gpu._cuda cimport Context

cdef class RegisteredMemory:
    cdef readonly Context context
    cdef readonly object source
    cdef readonly size_t bytes
    cdef readonly str refused
    cdef readonly bint warned
    cdef list held  # addresses
    cdef int _register(self, list spans) except -1
    cdef void _release(self) noexcept
    cdef object __weakref__
