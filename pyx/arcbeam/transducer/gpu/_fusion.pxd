"""What fuses logits, on a device: automata that stay there, and the memory of a group."""

from libc.stdint cimport uint32_t, uint64_t

from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.transducer._token_automaton cimport TokenAutomaton
from arcbeam.transducer.gpu._beam_memory cimport FusionOfBeam
from arcbeam.transducer.gpu._network cimport FusionParams


cdef class FusionMemory:
    cdef object __weakref__
    cdef MemoryPool pool
    cdef Stream stream
    cdef DeviceBuffer work
    cdef HostBuffer head  # of work: what is sent, and the states that come back
    cdef dict tables
    cdef uint32_t lanes
    cdef uint64_t states_at, keys_at, key_bytes, rows_at
    cdef FusionParams params
    cdef uint32_t[3] used  # 1: some lane has such a model
    cdef int begin(self, list fusions, uint32_t tokens, uint32_t tests) except -1
    cdef int _begin(self, list fusions, uint32_t models, uint64_t keys, uint64_t rows) except -1
    cdef int _put_views(self, list fusions, uint32_t models, TokenAutomaton* views) except -1
    cdef int _send(self, list new) except -1
    cdef int begin_again(self) except -1
    cdef bint fetches_at_once(self) noexcept nogil
    cdef int fetch(self) except -1 nogil
    cdef object states(self)
    cdef void clear(self) noexcept
    cdef int release(self) except -1


cdef class BeamFusionMemory(FusionMemory):
    cdef FusionOfBeam beam
    cdef object lodr
