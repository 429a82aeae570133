"""What fuses logits, on a device: automata that stay there, and the memory of a group."""

from functools import partial
from weakref import ref

import numpy as np

cimport cython
from libc.stdint cimport uintptr_t
from libc.string cimport memset

from arcbeam.gpu._memory cimport copy_to_device, copy_to_host, set_bytes
from arcbeam.transducer._token_automaton cimport TokenArc, TokenAutomaton
from arcbeam.transducer.gpu._beam_memory cimport kBeamModels
from arcbeam.transducer.gpu._network cimport kKeyBuffers, padded16

cdef enum:
    MODELS = 2  # kFusionModels: the n-gram model, the boosting tree
    ALIGNED = 256

ARRAYS = ("first_arcs", "arc_tokens", "arcs", "backoffs")


@cython.no_gc
cdef class Table:
    """An automaton on the device: its view, and the memory of all that were sent with it."""

    cdef TokenAutomaton view
    cdef DeviceBuffer memory
    cdef object automaton  # a weak reference, which removes the table


cdef class FusionMemory:
    """The live automata that a decoder has used, sent once; and the rows of one group after the other."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, alphas, options=None, lodr=None):
        self.pool, self.stream = pool, stream
        self.work = DeviceBuffer(pool, stream, "the addends of labels")
        self.head = HostBuffer(pool.context)
        self.tables = {}  # by id of the live automaton; a lookup in a WeakKeyDictionary takes four times as long
        memset(&self.params, 0, sizeof(self.params))
        self.params.alphas[0], self.params.alphas[1] = alphas

    def memory(self):
        """dict : bytes of the automata, of the rows, and ``pinned`` ones of the host."""
        cdef Table table
        held = {}
        for table in self.tables.values():
            held[id(table.memory)] = table.memory.capacity
        return {"automata": sum(held.values()), "rows": self.work.capacity, "pinned": self.head.pinned_bytes()}

    cdef void clear(self) noexcept:
        """Frees all of it on the device; automata are sent again when they are needed."""
        self.work.clear()
        self.tables.clear()

    cdef int release(self) except -1:
        """Gives back the host's memory, after that of the device has been cleared."""
        self.head = HostBuffer(self.pool.context)
        return 0

    cdef int begin(self, list fusions, uint32_t tokens, uint32_t tests) except -1:
        """Sends what a group needs: automata that are not there yet, in one copy, and where each lane begins."""
        cdef uint64_t lanes = <uint64_t> len(fusions), start
        cdef uint64_t biases = padded16(4 * lanes * tokens)
        self._begin(fusions, MODELS, <uint64_t> 8 * kKeyBuffers * tests, biases + 4 * 2 * MODELS * lanes * tokens)
        start = self.work.address
        self.params.automata = <const TokenAutomaton*> <uintptr_t> start
        self.params.states = <uint32_t*> <uintptr_t> (start + self.states_at)
        self.params.keys = <uint64_t*> <uintptr_t> (start + self.keys_at)
        self.params.biases = <float*> <uintptr_t> (start + self.rows_at)
        self.params.next_states = <uint32_t*> <uintptr_t> (start + self.rows_at + biases)
        self.params.used[0], self.params.used[1] = self.used[0], self.used[1]
        return 0

    cdef int _begin(self, list fusions, uint32_t models, uint64_t keys, uint64_t rows) except -1:
        """Sends views and first states of so many models, and `keys` bytes of 0; then there is room for rows."""
        cdef uint32_t n = <uint32_t> len(fusions), state
        cdef uint32_t* starts
        self.lanes = n
        self.states_at = padded16(<uint64_t> models * n * sizeof(TokenAutomaton))
        self.keys_at = padded16(self.states_at + <uint64_t> models * n * sizeof(uint32_t))
        self.key_bytes = keys
        self.rows_at = padded16(self.keys_at + keys)
        self.work.reserve(self.rows_at + rows, False)
        self.head.reserve(self.rows_at)
        memset(self.head.data, 0, self.rows_at)
        self._put_views(fusions, models, <TokenAutomaton*> self.head.data)
        starts = <uint32_t*> (<unsigned char*> self.head.data + self.states_at)
        for fusion in fusions:
            for state in <tuple> fusion[models]:
                starts[0] = state
                starts += 1
        with nogil:
            copy_to_device(self.work.address, self.head.data, self.rows_at, self.stream)
        return 0

    cdef int begin_again(self) except -1:
        """Call this before each launch but the first of a group."""
        set_bytes(self.work.address + self.keys_at, 0, self.key_bytes, self.stream)
        return 0

    cdef bint fetches_at_once(self) noexcept nogil:
        """Whether :meth:`fetch` does not wait for the launch."""
        return self.head.is_pinned()

    cdef int fetch(self) except -1 nogil:
        """Call this after each launch: sends the states on their way to the host."""
        copy_to_host(<unsigned char*> self.head.data + self.states_at, self.work.address + self.states_at,
                     MODELS * self.lanes * sizeof(uint32_t), self.stream)
        return 0

    cdef object states(self):
        """uint32[lanes, 2] : where the lanes have ended, once they have been fetched."""
        cdef const unsigned char* data = <const unsigned char*> self.head.data + self.states_at
        return np.frombuffer(data[:MODELS * self.lanes * sizeof(uint32_t)], np.uint32).reshape(self.lanes, MODELS)

    cdef int _put_views(self, list fusions, uint32_t models, TokenAutomaton* views) except -1:
        """The view of each automaton; those that are not on the device are sent. Without one all stays 0."""
        cdef uint32_t i, model
        cdef Table table
        missing = {}
        memset(&self.used, 0, sizeof(self.used))
        for i, fusion in enumerate(fusions):
            for model in range(models):
                automaton = (<tuple> fusion)[model]
                if automaton is None:
                    continue
                table = self.tables.get(id(automaton))
                if table is None:
                    missing[automaton] = None
                else:
                    self.used[model] = 1
                    views[i * models + model] = table.view
        if missing:
            self._send(list(missing))
            self._put_views(fusions, models, views)
        return 0

    cdef int _send(self, list new) except -1:
        cdef uint64_t at = 0
        cdef Table table
        cdef DeviceBuffer memory = DeviceBuffer(self.pool, self.stream, "boosting trees and n-gram models")
        places = []
        for automaton in new:
            for name in ARRAYS:
                places.append(at)
                at += -(-getattr(automaton, name).nbytes // ALIGNED) * ALIGNED
        data = np.zeros(at, np.uint8)
        memory.resize(at)
        found = iter(places)
        for automaton in new:
            for name in ARRAYS:
                array, place = np.ascontiguousarray(getattr(automaton, name)), next(found)
                data[place:place + array.nbytes] = array.view(np.uint8)
        memory.write(data)
        found = iter(places)
        for automaton in new:
            table = Table.__new__(Table)
            table.view.first_arcs = <const uint32_t*> <uintptr_t> (memory.address + <uint64_t> next(found))
            table.view.arc_tokens = <const uint32_t*> <uintptr_t> (memory.address + <uint64_t> next(found))
            table.view.arcs = <const TokenArc*> <uintptr_t> (memory.address + <uint64_t> next(found))
            table.view.backoffs = <const TokenArc*> <uintptr_t> (memory.address + <uint64_t> next(found))
            table.view.num_states, table.view.num_tokens = automaton.num_states, automaton.num_tokens
            table.memory = memory
            table.automaton = ref(automaton, partial(forget, ref(self), id(automaton)))
            self.tables[id(automaton)] = table
        return 0


cdef class BeamFusionMemory(FusionMemory):
    """The same for beam search: a second n-gram model and the internal one, but no rows, which histories have."""

    def __init__(self, pool, stream, alphas, options, lodr):
        memset(&self.beam, 0, sizeof(self.beam))
        self.lodr = lodr
        self.beam.factors[0], self.beam.factors[1] = alphas
        self.beam.factors[2], self.beam.ilm_scale = options.lodr_scale, options.ilm_scale

    cdef int begin(self, list fusions, uint32_t tokens, uint32_t tests) except -1:
        cdef uint32_t start = 0 if self.lodr is None else self.lodr.start
        self._begin([(*fusion[:MODELS], self.lodr, (*fusion[MODELS], start)) for fusion in fusions], kBeamModels, 0, 0)
        self.beam.automata = <const TokenAutomaton*> <uintptr_t> self.work.address
        self.beam.starts = <const uint32_t*> <uintptr_t> (self.work.address + self.states_at)
        self.beam.has_ilm = self.beam.ilm_scale > 0 and tokens > 1
        return 0

    cdef bint fetches_at_once(self) noexcept nogil:
        return True

    cdef int fetch(self) except -1 nogil:
        return 0  # an n-best list needs no states

    cdef object states(self):
        return None


def forget(memory, number, _):
    """`memory`: a weak reference, because its tables hold those that call this."""
    cdef FusionMemory found = memory()
    if found is not None:
        found.tables.pop(number, None)
