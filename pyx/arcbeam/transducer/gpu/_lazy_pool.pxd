"""Threads of the host that an engine keeps, and makes when it first needs them."""

from libc.stddef cimport size_t

cdef extern from "pool/lazy_pool.hpp" namespace "arcbeam::twin" nogil:
    cdef cppclass LazyPool:
        LazyPool(size_t threads) except +
