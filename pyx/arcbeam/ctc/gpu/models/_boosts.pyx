"""Boost lists on a device, and what else a search with boosts needs."""

import weakref

import numpy as np

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool, copy_to_device
from arcbeam.ctc.boost._boost cimport BoostArc, BoostList, BoostState, BoostView, no_phrases
from arcbeam.ctc.gpu.models._models cimport device_words
from arcbeam.ctc.gpu.searches._rescoring_view cimport (
    Entrance, LookupCounters, NewWordsOnDevice, RescoringParams, SlotView,
)
from arcbeam.ctc.gpu.searches._search cimport device_graph
from arcbeam.ctc.gpu.searches._search_view cimport StateRow
from arcbeam.graph._graph_view cimport ArcTarget

from arcbeam.ctc.gpu.models import new_words_layout

cdef enum:
    GRAIN = 32  # each array begins at a multiple of this many bytes


@cython.final
@cython.no_gc
cdef class Place:
    """Where a list lies: in a piece of memory that it shares with those that were sent with it."""

    cdef DeviceBuffer memory
    cdef BoostView view
    cdef NewWordsOnDevice new_words


cdef NewWordsOnDevice on_device(list addresses) except *:
    """The columns at these addresses; of no addresses, no words."""
    cdef NewWordsOnDevice made
    memset(&made, 0, sizeof(made))
    if addresses:
        made.states = <const StateRow*> <uintptr_t> addresses[0]
        made.targets = <const ArcTarget*> <uintptr_t> addresses[1]
        made.labels = <const uint16_t*> <uintptr_t> addresses[2]
        made.finals = <const float*> <uintptr_t> addresses[3]
        made.words = <const uint32_t*> <uintptr_t> addresses[4]
        made.columns = <const uint16_t*> <uintptr_t> addresses[5]
        made.has_words = 1
    return made


cdef size_t padded(size_t bytes) noexcept:
    return (bytes + GRAIN - 1) // GRAIN * GRAIN


cdef class DeviceBoosts:
    """The boost lists of one engine; each is sent once, in the order of `stream`, and freed with its last reference."""

    def __cinit__(self, graph, Context context not None, Stream stream not None, MemoryPool pool not None):
        self.pool, self.stream = pool, stream
        self.words = device_words(graph, context)
        self.counters = DeviceBuffer(pool, stream, "the counters of the boosts")
        self.staging = HostBuffer(context)
        self.places = weakref.WeakKeyDictionary()
        self.nothing = no_phrases()
        self.graph = device_graph(graph, context)
        self.entrances = DeviceBuffer(pool, stream, "the entrances of new words")
        self.first_word = 0xffffffff
        self.counters.resize(sizeof(LookupCounters))
        self.counters.fill(0)

    cdef int describe(self, RescoringParams* params) except -1:
        """Tells a kernel without language models everything except the views of a batch."""
        params.words = <const uint32_t*> <uintptr_t> self.words.memory.address
        params.counters = <LookupCounters*> <uintptr_t> self.counters.address
        params.hypotheses_per_state = 0
        params.epsilon_words = self.words.of_epsilons
        return 0

    cdef int have(self, list lists) except -1:
        """Sends those lists that are not there, with their new words, all in one copy. The stream must be idle."""
        cdef BoostList boost
        cdef DeviceBuffer memory
        cdef Place place
        cdef size_t bytes, own
        cdef const uint8_t[::1] data
        cdef unsigned char* to
        missing = {id(one): one for one in [self.nothing, *lists] if one is not None and one not in self.places}
        if not missing:
            return 0
        pieces = [self._pieces(one) for one in missing.values()]
        bytes = sum([padded(column.nbytes) for columns in pieces for column, _ in columns])
        memory = DeviceBuffer(self.pool, self.stream, "the boost lists")
        self.staging.reserve(bytes)
        memory.reserve(bytes, False)
        to = <unsigned char*> self.staging.data
        bytes = 0
        for boost, columns in zip(missing.values(), pieces):
            addresses = []
            for column, before in columns:
                data = column
                memcpy(to + bytes, &data[0], data.shape[0])
                own = before
                addresses.append(<uint64_t> (memory.address + bytes - own))  # which may lie before all memory
                bytes += padded(data.shape[0])
            place = Place()
            place.memory = memory
            place.view = boost.view
            place.view.states = <const BoostState*> <uintptr_t> addresses[0]
            place.view.arcs = <const BoostArc*> <uintptr_t> addresses[1]
            place.new_words = on_device(addresses[2:])
            self.places[boost] = place
        with nogil:
            copy_to_device(memory.address, to, bytes, self.stream)
        return 0

    cdef list _pieces(self, BoostList boost):
        """The columns of a list and its new words, each with the bytes that ids before its own would take."""
        made = [(boost.state_bytes, 0), (boost.arc_bytes, 0)]
        if boost.new_words is None:
            return made
        graph = self.graph.source
        if self.entrances.capacity == 0:
            table = new_words_layout.entrances(graph.states, graph.open_slot)
            self.entrances.write(table.view(np.uint8))
            self.first_word = boost.new_words.first_word  # the same in all lists
        return made + new_words_layout.columns(graph, boost.new_words, self.graph.last_labels)

    cdef BoostView view(self, boost) except *:
        """Where the list is on the device, after `have`; for None one without phrases."""
        return (<Place> self.places[self.nothing if boost is None else boost]).view

    cdef NewWordsOnDevice new_words(self, boost) except *:
        """Where the list's new words are on the device, after `have`."""
        return (<Place> self.places[self.nothing if boost is None else boost]).new_words

    cdef int describe_slot(self, SlotView* slot) except -1:
        """Tells a kernel everything of the graph's slot except the words of a batch."""
        slot.entrances = <const Entrance*> <uintptr_t> self.entrances.address
        slot.num_states, slot.num_arcs = self.graph.source.num_states, self.graph.source.num_arcs
        slot.first_word = self.first_word
        return 0

    cdef size_t device_bytes(self):
        """Bytes of the lists that are there."""
        cdef Place place
        return self.entrances.capacity + sum({id(place.memory): place.memory.capacity for place in self.places.values()}.values())

    cdef size_t pinned_bytes(self):
        return self.staging.pinned_bytes()
