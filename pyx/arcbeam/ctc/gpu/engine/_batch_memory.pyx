"""The memory of a batch, the same on the host and on the device. Each way takes one copy."""
# utterances | order | pieces | boosts | new words | streams | counters | lanes | results | arcs of the paths
# ------------------------------------ sent ----------------------------------------------
#                                                                ------------- copied back ------------
# Only the copy shows how many arcs the paths have: as many are copied as a batch of this size is likely to have.

from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from arcbeam.gpu._cuda cimport driver, ignore
from arcbeam.gpu._memory cimport MemoryPool, copy_to_device, copy_to_host, set_bytes
from arcbeam.ctc.gpu.searches._search_view cimport kNoIndex, padded

from arcbeam.ctc.gpu.searches._search import TooManyTokens

cdef enum:
    STOP = 0x7fffffff  # a place in the queue beyond every utterance
    FEW_ENTRIES = 1 << 14  # arcs of paths, which are soon copied


cdef class BatchMemory:
    """The memory of a batch on both sides; it grows and never shrinks. `stream` is that of the kernel."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None):
        self.stream = stream
        self.device, self.host = DeviceBuffer(pool, stream, "the batch"), HostBuffer(stream.context)
        self.likely_entries = FEW_ENTRIES

    cdef int lay_out(self, const BatchSizes& sizes, uint32_t path_entries) except -1:
        """Makes room for a batch, with room for at least so many arcs of paths; on the host, what is copied back is 0."""
        cdef BatchLayout* at = &self.at
        cdef size_t before = self.device.capacity
        self.sizes = sizes
        at.order = padded(sizes.utterances * sizeof(UtteranceView))
        at.pieces = padded(at.order + sizes.utterances * sizeof(uint32_t))
        at.boosts = padded(at.pieces + sizes.pieces * sizeof(uint32_t))
        at.new_words = padded(at.boosts + sizes.boosts * sizeof(BoostView))
        at.streams = padded(at.new_words + sizes.new_words * sizeof(NewWordsOnDevice))
        at.counters = padded(at.streams + sizes.streams * sizeof(StreamView))
        at.lanes = padded(at.counters + sizeof(Counters))
        at.results = padded(at.lanes + sizes.lanes * sizeof(LaneState))
        at.paths = padded(at.results + sizes.utterances * sizeof(UtteranceResult))
        self.path_entries = max(self.path_entries, path_entries)
        self.copied_entries = min(self.likely_entries, path_entries)
        self.device.reserve(at.paths + sizeof(uint32_t) * <size_t> self.path_entries, False)
        if self.device.capacity != before:
            set_bytes(self.device.address, 0, self.device.capacity, self.stream)
        self.host.reserve(self._host_bytes())
        memset(<unsigned char*> self.host.data + at.counters, 0, at.paths - at.counters)
        return 0

    cdef size_t _host_bytes(self) noexcept nogil:
        """With a word after the arcs, which stops the kernel."""
        return self.at.paths + sizeof(uint32_t) * (<size_t> self.copied_entries + 1)

    cdef void describe(self, NewWordsParams* params) noexcept:
        """Tells the kernel where everything is; call this before each launch."""
        cdef SearchParams* search = &params.rescoring.search
        cdef uintptr_t first = self.device.address
        cdef Counters* counters = self._device_counters()
        search.utterances, search.num_utterances = <const UtteranceView*> first, self.sizes.utterances
        search.order = <const uint32_t*> (first + self.at.order)
        search.pieces = <const uint32_t*> (first + self.at.pieces)
        search.streams = <const StreamView*> (first + self.at.streams) if self.sizes.streams else NULL
        search.next_in_order, search.path_pool_used = &counters.queue, &counters.paths_used
        search.resting_lanes, search.stop = &counters.resting_lanes, &counters.stop_soon
        search.lanes = <LaneState*> (first + self.at.lanes)
        search.results = <UtteranceResult*> (first + self.at.results)
        search.path_pool, search.path_pool_capacity = <uint32_t*> (first + self.at.paths), self.path_entries
        params.rescoring.boosts = <const BoostView*> (first + self.at.boosts)
        params.slot.of_utterances = <const NewWordsOnDevice*> (first + self.at.new_words)

    # On the host

    cdef UtteranceView* utterances(self) noexcept nogil:
        return <UtteranceView*> self.host.data

    cdef uint32_t* order(self) noexcept nogil:
        return <uint32_t*> (<unsigned char*> self.host.data + self.at.order)

    cdef uint32_t* pieces(self) noexcept nogil:
        return <uint32_t*> (<unsigned char*> self.host.data + self.at.pieces)

    cdef BoostView* boosts(self) noexcept nogil:
        return <BoostView*> (<unsigned char*> self.host.data + self.at.boosts)

    cdef NewWordsOnDevice* new_words(self) noexcept nogil:
        return <NewWordsOnDevice*> (<unsigned char*> self.host.data + self.at.new_words)

    cdef StreamView* streams(self) noexcept nogil:
        return <StreamView*> (<unsigned char*> self.host.data + self.at.streams)

    cdef Counters* counters(self) noexcept nogil:
        return <Counters*> (<unsigned char*> self.host.data + self.at.counters)

    cdef Counters* _device_counters(self) noexcept nogil:
        return <Counters*> <uintptr_t> (self.device.address + self.at.counters)

    cdef LaneState* lanes(self) noexcept nogil:
        return <LaneState*> (<unsigned char*> self.host.data + self.at.lanes)

    cdef const UtteranceResult* results(self) noexcept nogil:
        return <const UtteranceResult*> (<unsigned char*> self.host.data + self.at.results)

    cdef const uint32_t* paths(self) except NULL:
        """The arcs of all paths, once the kernel has ended: those that were not copied back come now."""
        cdef uint32_t used = min(self.counters().paths_used, self.path_entries)
        self.likely_entries = max(<uint32_t> FEW_ENTRIES, used + min(used // 4, kNoIndex - used))  # of the next batch
        if used > self.copied_entries:
            self.copied_entries = used
            with nogil:
                self.host.reserve(self._host_bytes())
                self.copy_back()  # with all that came before, for the memory may be new
                self.stream.synchronize()
        return <const uint32_t*> (<unsigned char*> self.host.data + self.at.paths)

    # Between host and device

    cdef int send(self) except -1:
        with nogil:
            return copy_to_device(self.device.address, self.host.data, self.at.paths, self.stream)

    cdef int send_stream(self, uint32_t utterance) except -1:
        """Sends where the state of one stream is, anew."""
        with nogil:
            return copy_to_device(self.device.address + self.at.streams + utterance * sizeof(StreamView),
                                  self.streams() + utterance, sizeof(StreamView), self.stream)

    cdef int send_lanes(self, uint32_t lanes) except -1:
        """Sends the first lanes anew; none rests, and none is to stop soon."""
        set_bytes(<uintptr_t> &self._device_counters().resting_lanes, 0, 2 * sizeof(uint32_t), self.stream)
        with nogil:
            return copy_to_device(self.device.address + self.at.lanes, self.lanes(), lanes * sizeof(LaneState),
                                  self.stream)

    cdef int copy_back(self) except -1 nogil:
        """Copies back what the host reads after a launch."""
        return copy_to_host(self.counters(), self.device.address + self.at.counters, self.at.paths - self.at.counters
                            + sizeof(uint32_t) * <size_t> min(self.path_entries, self.copied_entries), self.stream)

    cdef int grow_paths(self) except -1:
        """Makes room for more arcs of paths, of which there was too little; the kernel has stopped."""
        cdef uint64_t entries = 2 * <uint64_t> max(self.path_entries, self.counters().paths_used)
        if entries >= kNoIndex:
            raise TooManyTokens("the paths of a batch have more than 2**32 arcs: use a smaller batch")
        self.device.reserve(self.at.paths + sizeof(uint32_t) * entries, True)
        self.path_entries = <uint32_t> entries
        return 0

    cdef int stop(self, Stream copies) except -1:
        """Stops lanes after their utterances, by a copy on another stream: a kernel might wait for a free place."""
        cdef uint32_t* word = <uint32_t*> (<unsigned char*> self.host.data + self._host_bytes()) - 1
        word[0] = STOP
        ignore(self.stream.context.state, driver().copy_to_device(<uintptr_t> &self._device_counters().queue, word,
                                                                  sizeof(uint32_t), copies.handle))
        return 0

    cdef int clear(self) except -1:
        """Gives the device's memory back."""
        self.path_entries = 0
        self.device.clear()
        return 0

    cdef int release(self) except -1:
        """Gives the host's memory back, after that of the device has been cleared."""
        self.host = HostBuffer(self.stream.context)
        self.likely_entries = FEW_ENTRIES
        return 0

    cdef size_t path_bytes(self) noexcept:
        """Bytes of the device for arcs of paths."""
        return sizeof(uint32_t) * <size_t> self.path_entries

    cdef size_t other_bytes(self) noexcept:
        """And those for all else."""
        return self.device.capacity - self.path_bytes()
