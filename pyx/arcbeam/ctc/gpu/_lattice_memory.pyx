"""The memory through which lattices go from lanes to the host, and the threads that number them.

Kernels write the lattices of utterances that have ended to a pool in the host's memory, while other lanes decode. After
each launch the lattices are taken from there, and the pool is empty again.
"""

import time

import numpy as np

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uintptr_t
from libc.string cimport memcpy, memset
from libcpp.utility cimport move

from arcbeam.ctc.gpu._lanes cimport Lanes
from arcbeam.ctc.gpu._search cimport LatticeLane, LatticeStep, Outcome, padded
from arcbeam.gpu._memory cimport copy_to_device, copy_to_host
from arcbeam.graph._graph_view cimport view_of

cdef enum:
    SLICE_MS = 100  # of waiting between checks for signals


@cython.no_gc
cdef class LatticeMemory:
    """Memory for the lattices of a window: the parameter, lanes, results and first steps on both sides, and the pool.

    Parameters
    ----------
    pool : MemoryPool
    stream : Stream
    graph : arcbeam.Graph
    threads : int
        The number of threads that number lattices.
    """

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, graph, size_t threads):
        self.stream, self.graph, self.threads = stream, graph, threads
        self.memory = DeviceBuffer(pool, stream, "the lattices of a batch")
        self.steps = DeviceBuffer(pool, stream, "the lattices of a batch")
        self.host = HostBuffer(stream.context)
        self.pool = SharedBuffer(stream.context)

    cdef int begin(self, frames, Lanes lanes, uint32_t num_lanes, float beam, size_t pool_bytes) except -1:
        """Call this before the first launch of a window.

        Parameters
        ----------
        frames : int64[n]
            Of the window's utterances.
        lanes : Lanes
            They have room for links.
        num_lanes : int
        beam : float
        pool_bytes : int
            The room that the pool has at least.
        """
        cdef size_t n = len(frames)
        cdef LatticeParams* params
        first_step = np.concatenate([np.zeros(1, np.int64), np.cumsum(frames + 1)])
        self.lanes_at = padded(sizeof(LatticeParams)) + 16  # the word that counts the pool lies between
        self.results_at = padded(self.lanes_at + num_lanes * sizeof(LatticeLane))
        self.first_step_at = padded(self.results_at + n * sizeof(LatticeResult))
        self.bytes = padded(self.first_step_at + n * sizeof(uint32_t))
        self.host.reserve(self.bytes)
        self.memory.reserve(self.bytes, False)
        self.steps.reserve(<size_t> first_step[n] * sizeof(LatticeStep), False)
        self.pool.reserve(pool_bytes)
        memset(self.host.data, 0, self.bytes)
        places = np.ascontiguousarray(first_step[:n], np.uint32)
        if n:
            memcpy(<unsigned char*> self.host.data + self.first_step_at, <const void*> <uintptr_t> places.ctypes.data,
                   n * sizeof(uint32_t))
        params = <LatticeParams*> self.host.data
        params.lanes = <LatticeLane*> <uintptr_t> (self.memory.address + self.lanes_at)
        params.results = <LatticeResult*> <uintptr_t> (self.memory.address + self.results_at)
        params.steps = <LatticeStep*> <uintptr_t> self.steps.address
        params.first_step = <const uint32_t*> <uintptr_t> (self.memory.address + self.first_step_at)
        params.pool_used = <uint64_t*> <uintptr_t> (self.memory.address + padded(sizeof(LatticeParams)))
        params.beam = beam
        self.taken.assign(n, False)
        lanes.forget_links()
        return self.again(lanes, num_lanes)

    cdef int again(self, Lanes lanes, uint32_t num_lanes) except -1:
        """Call this before each launch: lanes may have grown, and the pool is empty."""
        cdef LatticeParams* params = <LatticeParams*> self.host.data
        params.pool, params.pool_capacity = <unsigned char*> self.pool.data, self.pool.capacity
        self._used()[0] = 0
        lanes.describe_links(<LatticeLane*> (<unsigned char*> self.host.data + self.lanes_at), num_lanes)
        with nogil:
            copy_to_device(self.memory.address, self.host.data, self.bytes, self.stream)
        return 0

    cdef const LatticeParams* address(self) noexcept:
        """The parameter on the device."""
        return <const LatticeParams*> <uintptr_t> self.memory.address

    cdef uint64_t* _used(self):
        return <uint64_t*> (<unsigned char*> self.host.data + padded(sizeof(LatticeParams)))

    cdef bint is_pinned(self) noexcept nogil:
        return self.host.is_pinned()

    cdef int ask_back(self) except -1 nogil:
        """Copies back what the host needs to know after a launch."""
        copy_to_host(self.host.data, self.memory.address, self.first_step_at, self.stream)
        return 0

    cdef int note_links(self, Lanes lanes, uint32_t num_lanes) except -1:
        """Tells the lanes how many links they hold. Call this after each launch, before lanes change places."""
        lanes.note_links(<const LatticeLane*> (<unsigned char*> self.host.data + self.lanes_at), num_lanes)
        return 0

    cdef int take(self, const UtteranceResult* results, order, frames, Lattices into) except -1:
        """Makes the lattices of the utterances that have ended since the last launch, and empties the pool.

        If the pool was too small it grows. `order` and `frames` are those of the window's utterances.
        """
        cdef const LatticeResult* places = <const LatticeResult*> (<unsigned char*> self.host.data + self.results_at)
        cdef const int64_t[::1] index = order, given = frames
        cdef vector[WrittenLattice] written
        cdef WrittenLattice one
        cdef size_t i, used = self._used()[0]
        cdef cbool done = False
        for i in range(self.taken.size()):
            if self.taken[i] or results[i].outcome != Outcome.decoded:
                continue
            self.taken[i] = True
            one.memory, one.place = <const unsigned char*> self.pool.data, places[i]
            one.total_cost, one.reached_final = results[i].total_cost, results[i].reached_final != 0
            one.complete = <int64_t> results[i].frames == given[i]
            one.into = &into.found[index[i]]
            written.push_back(one)
        if not written.empty():
            began = time.perf_counter()
            if not self.numberer:
                self.numberer.reset(new Numberer(self.threads))
            self.numberer.get().start(view_of(self.graph), move(written))
            try:
                while not done:
                    with nogil:
                        done = self.numberer.get().wait(SLICE_MS)
                    if not done:
                        PyErr_CheckSignals()
            finally:
                while not done:  # the threads read the pool
                    with nogil:
                        done = self.numberer.get().wait(SLICE_MS)
            self.numbering_s += time.perf_counter() - began
            if self.numberer.get().failed():
                raise MemoryError("out of memory while numbering lattices: use a smaller lattice_beam or batch")
        if used > self.pool.capacity:
            self.pool.reserve(used + used // 2)
        return 0

    cdef int release(self) except -1:
        """Gives the host's memory and the threads back; the device's goes with `clear` of the buffers."""
        self.host, self.pool = HostBuffer(self.stream.context), SharedBuffer(self.stream.context)
        self.numberer.reset()
        return 0

    cdef size_t device_bytes(self):
        return self.memory.capacity + self.steps.capacity

    cdef size_t pinned_bytes(self):
        return self.host.pinned_bytes() + self.pool.capacity
