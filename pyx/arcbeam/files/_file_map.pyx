"""Maps files to be read, and computes checksums; any part that a file loses reads as zeros, and the process goes on."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport errno
from libc.stdint cimport uint64_t, uintptr_t
from libcpp cimport bool as cbool
from posix.mman cimport MADV_WILLNEED, MAP_FAILED, MAP_SHARED, PROT_READ, madvise, mmap, munmap

import os

from arcbeam.core.threads import memory_bound_threads


cdef extern from "arcbeam/files/_file_map/checksum.hpp" namespace "arcbeam" nogil:
    uint64_t checksum_ "arcbeam::checksum"(const unsigned char*, uint64_t, unsigned) except +


cdef extern from "arcbeam/files/_file_map/map_guard.hpp" namespace "arcbeam" nogil:
    cdef cppclass Guard:
        pass
    Guard* guard_map(const void*, size_t) except +
    cbool cpp_is_broken "arcbeam::is_broken"(const Guard*)
    void release_guard(Guard*) except +


cdef class MapGuard:
    """Guards a map that other code has made, and that it must not unmap before this object has gone."""

    cdef Guard* guard

    def __cinit__(self, uintptr_t address, size_t size):
        self.guard = guard_map(<const void*> address, size)

    def __dealloc__(self):
        if self.guard != NULL:
            release_guard(self.guard)

    @property
    def is_broken(self):
        """Whether a part of the map was lost."""
        return cpp_is_broken(self.guard)


cdef class FileMap:
    """A file as a buffer of bytes, guarded while anything reads it; the descriptor may be closed. OSError."""

    cdef void* start
    cdef Py_ssize_t size
    cdef Guard* guard

    def __cinit__(self, int file, Py_ssize_t size):
        cdef void* start = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0)
        if start == MAP_FAILED:
            raise OSError(errno, os.strerror(errno))
        self.start, self.size = start, size
        self.guard = guard_map(start, size)
        madvise(start, size, MADV_WILLNEED)

    def __dealloc__(self):
        if self.guard != NULL:
            release_guard(self.guard)
        if self.start != NULL:
            munmap(self.start, self.size)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.start, self.size, 1, flags)

    @property
    def address(self):
        """int : the address of the first byte."""
        return <uintptr_t> self.start

    @property
    def is_broken(self):
        """Whether a part of the map was lost."""
        return cpp_is_broken(self.guard)


def checksum(const unsigned char[::1] data):
    """The 64-bit checksum of some bytes."""
    cdef uint64_t size = data.shape[0]
    cdef unsigned threads = memory_bound_threads()
    cdef uint64_t out
    with nogil:
        out = checksum_(&data[0], size, threads)
    return out
