"""Boost lists on a device, and what a search with boosts needs beside them."""

import weakref

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

from arcbeam.gpu._cuda cimport Context
from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool, copy_to_device, set_bytes
from arcbeam.ctc._boost cimport BoostArc, BoostList, BoostState, BoostView, no_phrases
from arcbeam.ctc.gpu._models cimport DeviceWords, device_words
from arcbeam.ctc.gpu._rescoring_search cimport LookupCounters, RescoringParams

cdef enum:
    GRAIN = 16  # each array begins at a multiple of this many bytes


@cython.final
@cython.no_gc
cdef class Place:
    """Where a list lies: in a piece of memory that it shares with those that were sent with it."""

    cdef DeviceBuffer memory
    cdef BoostView view


cdef size_t padded(size_t bytes) noexcept:
    return (bytes + GRAIN - 1) // GRAIN * GRAIN


cdef class DeviceBoosts:
    """The boost lists of one engine. A list is sent once, and goes when nobody has it any more.

    Parameters
    ----------
    graph : arcbeam.Graph
    context : Context
    stream : Stream
        What it is told to do is done in the order of this stream.
    pool : MemoryPool
    """

    def __cinit__(self, graph, Context context not None, Stream stream not None, MemoryPool pool not None):
        self.pool, self.stream = pool, stream
        self.words = device_words(graph, context)
        self.counters = DeviceBuffer(pool, stream, "the counters of the boosts")
        self.staging = HostBuffer(context)
        self.places = weakref.WeakKeyDictionary()
        self.nothing = no_phrases()
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
        """Sends those lists that are not there, all in one copy. The stream must be at rest."""
        cdef BoostList boost
        cdef DeviceBuffer memory
        cdef Place place
        cdef size_t bytes = 0, states, arcs
        cdef const uint8_t[::1] data
        cdef unsigned char* to
        wanted = {id(one): one for one in [self.nothing, *lists] if one is not None and one not in self.places}
        if not wanted:
            return 0
        for boost in wanted.values():
            bytes += padded(boost.state_bytes.nbytes) + padded(boost.arc_bytes.nbytes)
        memory = DeviceBuffer(self.pool, self.stream, "the boost lists")
        self.staging.reserve(bytes)
        memory.reserve(bytes, False)
        to = <unsigned char*> self.staging.data
        bytes = 0
        for boost in wanted.values():
            states, arcs = bytes, bytes + padded(boost.state_bytes.nbytes)
            data = boost.state_bytes
            memcpy(to + states, &data[0], data.shape[0])
            data = boost.arc_bytes
            memcpy(to + arcs, &data[0], data.shape[0])
            bytes = arcs + padded(data.shape[0])
            place = Place()
            place.memory = memory
            place.view = boost.view
            place.view.states = <const BoostState*> <uintptr_t> (memory.address + states)
            place.view.arcs = <const BoostArc*> <uintptr_t> (memory.address + arcs)
            self.places[boost] = place
        with nogil:
            copy_to_device(memory.address, to, bytes, self.stream)
        return 0

    cdef BoostView view(self, boost) except *:
        """Where the list is on the device, after `have`; for None one without phrases."""
        return (<Place> self.places[self.nothing if boost is None else boost]).view

    cdef size_t device_bytes(self):
        """Bytes of the lists that are there."""
        cdef Place place
        return sum({id(place.memory): place.memory.capacity for place in self.places.values()}.values())

    cdef size_t pinned_bytes(self):
        return self.staging.pinned_bytes()
