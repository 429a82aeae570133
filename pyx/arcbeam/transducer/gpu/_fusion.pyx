"""What fuses logits, on a device: automata that stay there, and the memory of a group."""

from weakref import WeakKeyDictionary

import numpy as np

from libc.stdint cimport uintptr_t
from libc.string cimport memset

from arcbeam.gpu._memory cimport set_bytes
from arcbeam.transducer._token_automaton cimport TokenAutomaton
from arcbeam.transducer.gpu._network cimport kKeyBuffers, padded16

cdef enum:
    MODELS = 2  # kFusionModels: the n-gram model, the boosting tree
    ALIGNED = 256

# arcbeam::transducer::TokenAutomaton
VIEW = np.dtype([(name, np.uint64) for name in ("first_arcs", "arc_tokens", "arcs", "backoffs")]
                + [("num_states", np.uint32), ("num_tokens", np.uint32)])
ARRAYS = ("first_arcs", "arc_tokens", "arcs", "backoffs")
NOTHING = bytes(VIEW.itemsize)  # in the place of no automaton


class Table:
    """An automaton on the device: the bytes of its view, and the memory of all that were sent with it."""

    def __init__(self, view, memory):
        self.view, self.memory = view, memory


cdef class FusionMemory:
    """The automata that a decoder has met and that still live, sent once; and the rows of one group after the other.

    Parameters
    ----------
    pool : MemoryPool
    stream : Stream
    alphas : (float, float)
        The factors of n-gram model and boosting tree.
    """

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, alphas):
        self.pool, self.stream = pool, stream
        self.work = DeviceBuffer(pool, stream, "the addends of labels")
        self.tables = WeakKeyDictionary()
        memset(&self.params, 0, sizeof(self.params))
        self.params.alphas[0], self.params.alphas[1] = alphas

    def memory(self):
        """dict : bytes of the automata, and of the rows."""
        held = {id(table.memory): table.memory.capacity for table in self.tables.values()}
        return {"automata": sum(held.values()), "rows": self.work.capacity}

    cdef void clear(self) noexcept:
        """Frees all of it; automata are sent again when they are needed."""
        self.work.clear()
        self.tables.clear()

    cdef int begin(self, list fusions, uint32_t tokens, uint32_t tests) except -1:
        """Sends what a group needs: automata that are not there yet, in one copy, and where each lane begins."""
        cdef uint32_t n = <uint32_t> len(fusions)
        cdef uint64_t biases_at, next_at, start
        cdef uint64_t at = 0
        cdef uint32_t state
        views = b"".join(self._views([automaton for fusion in fusions for automaton in fusion[:MODELS]]))
        self.lanes = n
        self.states_at = padded16(<uint64_t> len(views))
        self.keys_at = padded16(self.states_at + <uint64_t> MODELS * n * sizeof(uint32_t))
        self.key_bytes = <uint64_t> 8 * kKeyBuffers * tests
        biases_at = padded16(self.keys_at + self.key_bytes)
        next_at = padded16(biases_at + <uint64_t> 4 * n * tokens)
        self.work.reserve(next_at + <uint64_t> 4 * 2 * MODELS * n * tokens, False)
        start = self.work.address
        head = np.zeros(self.keys_at, np.uint8)
        head[:len(views)] = np.frombuffer(views, np.uint8)
        cdef uint32_t[::1] starts = head[self.states_at:self.keys_at].view(np.uint32)
        for fusion in fusions:
            for state in <tuple> fusion[MODELS]:
                starts[at] = state
                at += 1
        self.work.write(head)
        self.params.automata = <const TokenAutomaton*> <uintptr_t> start
        self.params.states = <uint32_t*> <uintptr_t> (start + self.states_at)
        self.params.keys = <uint64_t*> <uintptr_t> (start + self.keys_at)
        self.params.biases = <float*> <uintptr_t> (start + biases_at)
        self.params.next_states = <uint32_t*> <uintptr_t> (start + next_at)
        self.begin_again()
        return 0

    cdef int begin_again(self) except -1:
        """Call this before each launch."""
        set_bytes(self.work.address + self.keys_at, 0, self.key_bytes, self.stream)
        return 0

    def states(self):
        """uint32[lanes, 2]: where the lanes have ended."""
        data = self.work.read(4 * MODELS * self.lanes, self.states_at)
        return np.frombuffer(data, np.uint32).reshape(self.lanes, MODELS)

    def _views(self, list automata):
        """list of bytes : the view of each automaton, None included; those that are not on the device are sent."""
        tables = [None if automaton is None else self.tables.get(automaton) for automaton in automata]
        pairs = zip(automata, tables, strict=True)
        new = list(dict.fromkeys(automaton for automaton, table in pairs if table is None and automaton is not None))
        if new:
            self._send(new)
            tables = [None if automaton is None else self.tables[automaton] for automaton in automata]
        return [NOTHING if table is None else table.view for table in tables]

    def _send(self, list new):
        places, at = [], 0
        for automaton in new:
            for name in ARRAYS:
                places.append(at)
                at += -(-getattr(automaton, name).nbytes // ALIGNED) * ALIGNED
        data = np.zeros(at, np.uint8)
        memory = DeviceBuffer(self.pool, self.stream, "boosting trees and n-gram models")
        memory.resize(at)
        for i, automaton in enumerate(new):
            view = np.zeros((), VIEW)
            view["num_states"], view["num_tokens"] = automaton.num_states, automaton.num_tokens
            for name, place in zip(ARRAYS, places[4 * i:]):
                array = np.ascontiguousarray(getattr(automaton, name))
                data[place:place + array.nbytes] = array.view(np.uint8)
                view[name] = memory.address + place
            self.tables[automaton] = Table(view.tobytes(), memory)
        try:
            memory.write(data)
        except BaseException:
            for automaton in new:
                del self.tables[automaton]
            raise
