"""What the engines of the CPU have in common: a pool of threads, and Python threads that take turns at it."""

from libcpp cimport bool as cbool
from posix.types cimport pid_t


cdef extern from "pool/batch_engine.hpp" namespace "arcbeam::twin" nogil:
    cdef cppclass AnyEngine:
        cbool wait(int milliseconds) except +
        void cancel()
        size_t finished()


cdef class PooledEngine:
    cdef object lock  # one batch at a time
    cdef AnyEngine* pool
    cdef size_t threads  # of the pool
    cdef pid_t process, process_of_lock

    cpdef object decoding_lock(self)
    cdef AnyEngine* new_pool(self) except NULL
    cdef int ready(self) except -1
    cdef int finish(self) except -1
    cdef void close(self)
