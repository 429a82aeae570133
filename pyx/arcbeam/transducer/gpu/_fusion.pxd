"""What fuses logits, on a device: automata that stay there, and the memory of a group."""

from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.transducer.gpu._network cimport FusionParams


cdef class FusionMemory:
    cdef MemoryPool pool
    cdef Stream stream
    cdef DeviceBuffer work
    cdef object tables
    cdef uint32_t lanes
    cdef uint64_t states_at, keys_at, key_bytes
    cdef FusionParams params
    cdef int begin(self, list fusions, uint32_t tokens, uint32_t tests) except -1
    cdef int begin_again(self) except -1
    cdef void clear(self) noexcept
