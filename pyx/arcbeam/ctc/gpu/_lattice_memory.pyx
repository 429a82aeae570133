"""Sends lattices from lanes to the host, where threads number and answer them while other lanes decode."""


import numpy as np

cimport cython
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy, memset
from libcpp.utility cimport move

from arcbeam.core._interrupts cimport SLICE_MS, check_interrupts
from arcbeam.ctc.boost._boost cimport BoostList
from arcbeam.ctc.gpu.searches._lanes cimport Lanes
from arcbeam.ctc.gpu.searches._search_view cimport LatticeLane, LatticeResult, LatticeStep, padded
from arcbeam.ctc.gpu._streams cimport CudaStream
from arcbeam.gpu._driver_table cimport now_ns, poll_interval
from arcbeam.gpu._memory cimport copy_to_device, copy_to_host
from arcbeam.graph._graph_view cimport view_of

from arcbeam.gpu.tuned import search_plan


@cython.no_gc
cdef class LatticeMemory:
    """The lattices of a window: parameters, lanes, first steps, streams and results, and a pool in host memory."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, graph, AnswerEngine answers not None):
        self.stream, self.graph, self.answers = stream, graph, answers
        self.memory = DeviceBuffer(pool, stream, "the lattices of a batch")
        self.steps = DeviceBuffer(pool, stream, "the lattices of a batch")
        self.host = HostBuffer(stream.context)
        self.pool, self.results = SharedBuffer(stream.context), SharedBuffer(stream.context)

    cdef int begin(self, order, frames, Lattices into, bint keeps, Lanes lanes, uint32_t num_lanes, float beam,
                   size_t pool_bytes, list boosts, list streams) except -1:
        """Call this before the first launch of a window. `order`, `frames`: int64[n], number in the batch, length."""
        # `keeps`: whether lattices are taken into `into`, and not only answered.
        cdef size_t n = len(frames)
        cdef LatticeParams* params
        cdef const int64_t[::1] index = order, steps
        cdef vector[PendingLattice] pending
        cdef PendingLattice one
        cdef BoostList boost
        cdef size_t i
        self.finish()
        num_steps = frames + 1
        if streams is not None:
            num_steps += [(<CudaStream> streams[at]).lived for at in order]
        steps = num_steps
        first_step = np.concatenate([np.zeros(1, np.int64), np.cumsum(num_steps)])
        self.lanes_at = padded(sizeof(LatticeParams)) + 16  # the word that counts the pool lies between
        self.first_step_at = padded(self.lanes_at + num_lanes * sizeof(LatticeLane))
        self.streams_at = padded(self.first_step_at + n * sizeof(uint32_t))
        self.bytes = padded(self.streams_at + (0 if streams is None else n * sizeof(StreamLinksView)))
        self.host.reserve(self.bytes)
        self.memory.reserve(self.bytes, False)
        self.steps.reserve(<size_t> first_step[n] * sizeof(LatticeStep), False)
        self.pool.reserve(pool_bytes)
        self.results.reserve(n * sizeof(LatticeResult))
        memset(self.host.data, 0, self.bytes)
        memset(self.results.data, 0, n * sizeof(LatticeResult))
        places = np.ascontiguousarray(first_step[:n], np.uint32)
        if n:
            memcpy(<unsigned char*> self.host.data + self.first_step_at, <const void*> <uintptr_t> places.ctypes.data,
                   n * sizeof(uint32_t))
        params = <LatticeParams*> self.host.data
        params.lanes = <LatticeLane*> <uintptr_t> (self.memory.address + self.lanes_at)
        params.results = <LatticeResult*> self.results.data
        params.steps = <LatticeStep*> <uintptr_t> self.steps.address
        params.first_step = <const uint32_t*> <uintptr_t> (self.memory.address + self.first_step_at)
        params.pool_used = <uint64_t*> <uintptr_t> (self.memory.address + padded(sizeof(LatticeParams)))
        params.beam, params.prune_above = beam, search_plan.STREAM_PRUNE_ABOVE
        if streams is not None:
            params.streams = <const StreamLinksView*> <uintptr_t> (self.memory.address + self.streams_at)
            for i in range(n):
                (<CudaStream> streams[index[i]]).describe_links(self._stream_views() + i, <uint32_t> steps[i],
                                                                search_plan.STREAM_LINKS)
        for i in range(n):
            one.result, one.utterance = params.results + i, index[i]
            one.into = NULL
            if keeps:
                one.into = &into.found[index[i]]
            one.new_words = NULL
            boost = None if boosts is None else boosts[index[i]]
            if boost is not None and boost.new_words is not None:
                one.new_words = &boost.new_words_view
            pending.push_back(one)
        self.numberer.begin(self.answers.lattice_pool()[0], view_of(self.graph), move(pending))
        self.at_work = True
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
        self.numberer.start(<const unsigned char*> self.pool.data)
        return 0

    cdef StreamLinksView* _stream_views(self):
        return <StreamLinksView*> (<unsigned char*> self.host.data + self.streams_at)

    cdef int grow_stream(self, CudaStream stream, uint32_t utterance, uint32_t links) except -1:
        """Makes more room for the links that a lane waits to leave, and for the costs that its state has room for."""
        return stream.grow_links(links, self._stream_views() + utterance)

    cdef const LatticeParams* address(self) noexcept:
        """The parameter on the device."""
        return <const LatticeParams*> <uintptr_t> self.memory.address

    cdef uint64_t* _used(self):
        return <uint64_t*> (<unsigned char*> self.host.data + padded(sizeof(LatticeParams)))

    cdef bint is_pinned(self) noexcept nogil:
        return self.host.is_pinned()

    cdef int copy_back(self) except -1 nogil:
        """Copies back what the host reads after a launch."""
        copy_to_host(self.host.data, self.memory.address, self.first_step_at, self.stream)
        return 0

    cdef int wait(self, Event done, int milliseconds) except -1 nogil:
        """:meth:`Event.wait`, while lattices are numbered."""
        cdef int64_t start = now_ns()
        cdef int64_t waited = 0
        if self.results.managed or self.pool.managed:  # the host may read neither while a kernel runs
            return done.wait(milliseconds)
        while not done.is_done():
            self.numberer.poll()
            waited = now_ns() - start
            if waited >= <int64_t> milliseconds * 1000000:
                return 0
            poll_interval(waited)
        return 1

    cdef int take(self, Lanes lanes, uint32_t num_lanes) except -1:
        """Numbers the lattices that are left after a launch, and empties the pool, which grows if it was too small."""
        cdef size_t used = self._used()[0]
        cdef cbool done = False
        lanes.note_links(<const LatticeLane*> (<unsigned char*> self.host.data + self.lanes_at), num_lanes)
        self.numberer.poll()
        while not done:
            with nogil:
                done = self.numberer.wait_for_numbers(SLICE_MS)
            if not done:
                check_interrupts()
        if self.numberer.failed():
            raise MemoryError("out of memory while numbering lattices: use a smaller lattice_beam or batch")
        if used > self.pool.capacity:
            self.pool.reserve(used + used // 2)
        return 0

    cdef int finish(self) except -1:
        """Waits for what threads still make; call this before the results of the last window are read."""
        cdef cbool done = False
        if not self.at_work:
            return 0
        self.numberer.finish()
        while not done:
            with nogil:
                done = self.numberer.wait(SLICE_MS)
            if not done:
                check_interrupts()
        self.at_work = False
        return 0

    cdef int cancel(self) except -1:
        """Waits until no thread reads the pool, or makes anything: what has not been answered will not be."""
        cdef cbool done = False
        if self.at_work:
            self.numberer.cancel()
            self.numberer.finish()
        while self.at_work:
            with nogil:
                done = self.numberer.wait(SLICE_MS)
            self.at_work = not done
        return 0

    cdef int release(self) except -1:
        """Gives the host's memory back; the device's goes with `clear` of the buffers."""
        self.host = HostBuffer(self.stream.context)
        self.pool, self.results = SharedBuffer(self.stream.context), SharedBuffer(self.stream.context)
        return 0

    cdef size_t device_bytes(self):
        return self.memory.capacity + self.steps.capacity

    cdef size_t pinned_bytes(self):
        return self.host.pinned_bytes() + self.pool.capacity + self.results.capacity
