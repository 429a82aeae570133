"""Streams on a device. A batch makes new states and replaces the current ones only once all of it has succeeded."""

cimport cython
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.ctc.streams._rounds cimport SearchState
from arcbeam.graph._graph_view cimport OpenGraph, view_of
from arcbeam.gpu._launch cimport Stream
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool, set_bytes
from arcbeam.ctc.boost._boost cimport BoostList, no_phrases
from arcbeam.ctc.streams._endpoint cimport EndpointRules, take_rules
from arcbeam.lm._kenlm_view cimport KenLmView
from arcbeam.ctc.streams._saved_search cimport LmContext, SavedSearch, fields_of, take_lm_context, take_saved
from arcbeam.ctc.gpu.models._models cimport DeviceRescoring
from arcbeam.ctc.gpu.models._requests cimport KenLmAnswerer
from arcbeam.ctc.gpu.searches._rescoring_view cimport SharedBits, rescoring_tokens_bytes
from arcbeam.ctc.gpu.searches._search_view cimport (
    StreamLinksView, StreamView, kNoIndex, stream_bytes, stream_links_bytes,
)
from arcbeam.graph._words cimport GrowingPath
from arcbeam.lm._lm_view cimport RescoringView


cdef extern from "arcbeam/ctc/gpu/_streams/state.hpp" namespace "arcbeam" nogil:
    cdef struct HostState:
        unsigned char* memory
        uint32_t tokens
        uint32_t entries

    cdef struct HostLinks:
        unsigned char* memory
        uint32_t links
        uint32_t steps

    uint32_t lm_start "arcbeam::large_start"(const RescoringView& lms, const LmContext& lm_context) except +
    vector[uint8_t] kenlm_start "arcbeam::large_start"(const KenLmView& kenlm, const LmContext& lm_context) except +
    vector[uint8_t] histories_of(const HostState& state, const StreamModels& models,
                                 const KenLmAnswerer& numbers) except +
    cbool number_histories(const vector[uint8_t]& histories, const StreamModels& models, KenLmAnswerer& numbers,
                           const HostState& into) except +
    SavedSearch saved_search(const HostState& state, const HostLinks& links, float lattice_beam, const OpenGraph& graph,
                             const StreamModels& models, const vector[uint8_t]& histories) except +
    void resume_search(const SavedSearch& saved, const OpenGraph& graph, const StreamModels& models, const LmContext& lm_context,
                       const EndpointRules& rules, const HostState& into, const HostLinks& links,
                       vector[uint8_t]& histories) except +

cdef BoostList NOTHING = no_phrases()

cdef enum:
    SPARE_BYTES = 1 << 25  # of rooms without streams


cdef uint64_t bytes_of(const StateRoom& room) noexcept:
    """The bytes of a room; tokens have room for histories, which stay those of no boost without boosts and models."""
    return stream_bytes(rescoring_tokens_bytes(room.tokens), room.entries)


@cython.final
@cython.no_gc
cdef class SpareRooms:
    """Rooms of streams that have ended, for those that begin: the driver takes microseconds for each allocation."""
    # Only of streams without boosts and models, whose rooms have been set to 0 and have no histories.

    def __cinit__(self):
        self.rooms = []

    cdef int give(self, DeviceBuffer memory, const StateRoom& room) except -1:
        if room.tokens != 0 and self.nbytes + memory.capacity <= SPARE_BYTES:
            self.rooms.append((memory, room.tokens, room.entries))
            self.nbytes += memory.capacity
        return 0

    cdef DeviceBuffer take(self, StateRoom* room):
        """The memory of a room, or None."""
        cdef DeviceBuffer memory
        if not self.rooms:
            return None
        memory, room.tokens, room.entries = self.rooms.pop()
        room.address = memory.address
        self.nbytes -= memory.capacity
        return memory

    cdef int clear(self) except -1:
        """Frees them all."""
        self.rooms, self.nbytes = [], 0
        return 0


@cython.final
@cython.no_gc
cdef class LinkRoom:
    """Memory for what a stream keeps of a lattice: links, steps, and costs of the entries of its log."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None):
        self.memory = DeviceBuffer(pool, stream, "the lattice of a stream")

    cdef int reserve(self, uint32_t links, uint32_t steps, uint32_t entries) except -1:
        """Makes room for at least so much; what was there is lost if it was less."""
        if links <= self.links and steps <= self.steps and entries <= self.entries:
            return 0
        if steps > self.steps:
            steps += steps // 2 + 64  # the sentence continues
        links, steps, entries = max(links, self.links), max(steps, self.steps), max(entries, self.entries)
        self.links = self.steps = self.entries = 0
        self.memory.reserve(stream_links_bytes(links, steps, entries), False)
        set_bytes(self.memory.address, 0, self.memory.capacity, self.memory.stream)  # all of it is read when it is saved
        self.links, self.steps, self.entries = links, steps, entries
        return 0

    cdef uint64_t nbytes(self) noexcept:
        return stream_links_bytes(self.links, self.steps, self.entries)


@cython.final
@cython.no_gc
cdef class CudaStream(SearchState):
    """A sentence of a stream between two chunks; takes no frame after an endpoint. `saved` must have been checked."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, graph, DeviceRescoring rescoring,
                  SpareRooms spares not None, BoostList boost, rules, lm_context, saved, lattice_beam=None):
        self.graph, self.rescoring, self.boost, self.saved = graph, rescoring, boost, saved
        take_rules(rules, &self.rules)
        self.has_rules = self.rules.num_rules != 0
        take_lm_context(lm_context, self.lm_context)
        self.models = StreamModels(NULL, NULL, SharedBits(0, 0), (<BoostList> (NOTHING if boost is None else boost)).view)
        self.state, self.spare = StateRoom(0, 0, 0, 0), StateRoom(0, 0, 0, 1)
        if boost is None and rescoring is None:
            self.spares = spares
            self.even, self.odd = spares.take(&self.state), spares.take(&self.spare)
        self.even = self.even or DeviceBuffer(pool, stream, "the state of a stream")
        self.odd = self.odd or DeviceBuffer(pool, stream, "the state of a stream")
        self.keeps_links = lattice_beam is not None
        if self.keeps_links:
            self.lattice_beam = lattice_beam
            self.links, self.spare_links = LinkRoom(pool, stream), LinkRoom(pool, stream)
        if saved is not None:
            self.frames, self.lived, self.fired = saved.frames, saved.frames - saved.dead_frames, saved.fired
            if saved.ended:
                self.gave_lattice, self.saved = True, None
        if rescoring is None:
            return
        self.models.bits = rescoring.bits
        if rescoring.large is not None:
            self.models.lms = &rescoring.host_view.rescoring
            self.large_start = lm_start(self.models.lms[0], self.lm_context)
        else:
            self.models.kenlm, self.numbers = &rescoring.host_view, rescoring.requests
            self.numbers.numbered[id(self)] = self

    def __dealloc__(self):
        if self.spares is not None:
            self.spares.give(self._memory(self.state), self.state)
            self.spares.give(self._memory(self.spare), self.spare)

    @property
    def nbytes(self):
        """int : bytes on the device."""
        of_links = 0 if not self.keeps_links else self.links.memory.capacity + self.spare_links.memory.capacity
        return self.even.capacity + self.odd.capacity + of_links

    cdef uint64_t frames_taken(self) except? 0:
        return self.frames

    cdef bint is_at(self, uint64_t frames, bint is_final) except -1:
        return self.frames == frames and (is_final or not self.gave_lattice)

    cdef uint32_t rule_fired(self) except? 0xffffffff:
        return self.fired

    cdef uint32_t hand_over(self, GrowingPath path) except? 0xffffffff:
        if self.settled_by is not None:
            path.add(self.settled, self.num_settled)
            self.settled_by = None
        return self.fired

    cdef DeviceBuffer _memory(self, const StateRoom& room):
        return self.odd if room.buffer else self.even

    cdef int _reserve(self, StateRoom* room, uint32_t tokens, uint32_t entries) except -1:
        """Makes room for at least so much; what was there is lost if it was less."""
        cdef DeviceBuffer memory
        if tokens <= room.tokens and entries <= room.entries:
            return 0
        memory = self._memory(room[0])
        tokens = (max(tokens, room.tokens) + 15) // 16 * 16
        entries = (max(entries, room.entries) + 1) // 2 * 2
        room.address, room.tokens, room.entries = 0, 0, 0
        memory.reserve(stream_bytes(rescoring_tokens_bytes(tokens), entries), False)
        set_bytes(memory.address, 0, memory.capacity, memory.stream)
        room.address, room.tokens, room.entries = memory.address, tokens, entries
        return 0

    def search(self, bint with_lattice=False):
        """The fields of SavedSearch but `settled` and `dead_frames`. `with_lattice`: of a search that keeps links."""
        cdef SavedSearch found
        cdef HostState state
        cdef HostLinks links = HostLinks(NULL, 0, 0)
        cdef unsigned char[::1] memory, memory_of_links
        with self.even.pool.context:
            self._resume()
        found.alive = True
        if self.has_begun:
            memory = self.apart or self._memory(self.state).read(bytes_of(self.state))
            state = HostState(&memory[0], self.state.tokens, self.state.entries)
            if with_lattice and self.keeps_links:
                memory_of_links = self.links.memory.read(self.links.nbytes())
                links = HostLinks(&memory_of_links[0], self.links.links, self.links.steps)
            if self.numbers is not None and self.apart is None:
                found = saved_search(state, links, self.lattice_beam, self._open_graph(), self.models,
                                     histories_of(state, self.models, self.numbers.lookups.kenlm[0]))
            else:
                found = saved_search(state, links, self.lattice_beam, self._open_graph(), self.models, self.histories)
        found.frames, found.fired = self.frames, self.fired
        return fields_of(found, with_lattice)

    cdef OpenGraph _open_graph(self) except *:
        if self.boost is None or self.boost.new_words is None:
            return OpenGraph(view_of(self.graph))
        return OpenGraph(view_of(self.graph), self.boost.new_words_view)

    cdef int _resume(self) except -1:
        """Makes the state with which the search continues, and sends it unless its histories lack numbers."""
        cdef SavedSearch search
        cdef HostLinks links = HostLinks(NULL, 0, 0)
        cdef unsigned char[::1] memory, memory_of_links
        if self.saved is None:
            return 0
        take_saved(self.saved, search)
        self._reserve(&self.state, <uint32_t> search.tokens.size(), <uint32_t> search.log.size())
        made = bytearray(bytes_of(self.state))
        memory = made
        if search.keeps_links:
            self.links.reserve(<uint32_t> search.links.losers.size(), <uint32_t> search.links.offsets.size(),
                               self.state.entries)
            memory_of_links = bytearray(self.links.nbytes())
            links = HostLinks(&memory_of_links[0], self.links.links, self.links.steps)
        resume_search(search, self._open_graph(), self.models, self.lm_context, self.rules,
                      HostState(&memory[0], self.state.tokens, self.state.entries), links, self.histories)
        if search.keeps_links:
            self.links.memory.write(memory_of_links)
        if self.numbers is None:
            self._memory(self.state).write(memory)
        else:
            self.apart = made
        self.has_begun, self.saved = True, None
        return 0

    def release_lm_histories(self):
        """Moves KenLM histories into this state until its next chunk; their number. Their ids must still be valid."""
        cdef unsigned char[::1] memory
        if self.apart is None and self.has_begun:
            read = self._memory(self.state).read(bytes_of(self.state))
            memory = read
            self.histories = histories_of(HostState(&memory[0], self.state.tokens, self.state.entries), self.models,
                                          self.numbers.lookups.kenlm[0])
            self.apart = read
        return self.histories.size() // self.numbers.lookups.kenlm.state_size()

    cdef int _number_histories(self) except -1:
        """Numbers the histories that a chunk begins with, where they are a KenLM's."""
        cdef vector[uint8_t] start
        cdef KenLmAnswerer* numbers = self.numbers.lookups.kenlm
        cdef unsigned char[::1] memory
        if self.apart is not None:
            memory = self.apart
            while not number_histories(self.histories, self.models, numbers[0],
                                       HostState(&memory[0], self.state.tokens, self.state.entries)):
                self.numbers.make_room()
            self._memory(self.state).write(memory)
            self.apart = None
            self.histories.clear()
        elif not self.has_begun:
            start = kenlm_start(self.models.kenlm[0], self.lm_context)
            self.large_start = numbers.number(start.data())
            while self.large_start == kNoIndex:
                self.numbers.make_room()
                self.large_start = numbers.number(start.data())
        return 0

    cdef int describe(self, StreamView* view, bint last, uint64_t columns, uint32_t tokens, uint32_t entries) except -1:
        """Passes the state, and room for the next one, to the kernel; `columns`: address of the arcs' columns."""
        if self.saved is not None:
            self._resume()
        if self.numbers is not None:
            self._number_histories()
        self._reserve(&self.spare, max(tokens, self.state.tokens), max(entries, self.state.entries))
        view.before = <unsigned char*> <uintptr_t> (self.state.address if self.has_begun else 0)
        view.before_tokens, view.before_entries = self.state.tokens, self.state.entries
        view.is_last, view.shows_lattice, view.fired, view.frames = last, self.shows_lattice, self.fired, self.frames
        view.large_start = self.large_start
        view.columns, view.next_check = <const uint16_t*> NULL, kNoIndex
        if self.has_rules:
            view.columns, view.rules = <const uint16_t*> <uintptr_t> columns, self.rules
            if self.fired == 0:
                view.next_check = self.rules.every - <uint32_t> (self.frames % self.rules.every)
        else:
            memset(&view.rules, 0, sizeof(EndpointRules))
        return self._describe_next(view)

    cdef int _describe_next(self, StreamView* view) except -1:
        view.after = <unsigned char*> <uintptr_t> self.spare.address
        view.after_tokens, view.after_entries = self.spare.tokens, self.spare.entries
        return 0

    cdef int grow(self, uint32_t tokens, uint32_t entries, StreamView* view) except -1:
        """Makes more room for the next state."""
        self._reserve(&self.spare, 2 * tokens, 2 * entries)
        return self._describe_next(view)

    cdef int describe_links(self, StreamLinksView* view, uint32_t steps, uint32_t links) except -1:
        """Passes the links to the kernel after `describe`: room for the sentence's `steps` and for so many links."""
        self.spare_links.reserve(max(links, self.links.links), steps, self.spare.entries)
        view.before = <unsigned char*> <uintptr_t> (self.links.memory.address if self.has_begun else 0)
        view.before_links, view.before_steps = self.links.links, self.links.steps
        return self._describe_next_links(view)

    cdef int _describe_next_links(self, StreamLinksView* view) except -1:
        view.after = <unsigned char*> <uintptr_t> self.spare_links.memory.address
        view.after_links, view.after_steps = self.spare_links.links, self.spare_links.steps
        return 0

    cdef int grow_links(self, uint32_t links, StreamLinksView* view) except -1:
        """Makes more room for the next links, and for the costs of all entries that the next state has room for."""
        self.spare_links.reserve(max(2 * links, self.spare_links.links), self.spare_links.steps, self.spare.entries)
        return self._describe_next_links(view)

    cdef int take(self, owner, const uint32_t* arcs, size_t count, uint64_t frames, uint64_t lived, uint32_t fired,
                  bint last) except -1:
        """Takes over the new state and the settled arcs of a decoded chunk; `lived`: frames before the search died."""
        # `owner` keeps the arcs until they are handed over, before the next chunk.
        if self.gave_lattice:
            return self._forget()  # the sentence has ended before
        if count > 0:
            self.settled_by, self.settled, self.num_settled = owner, arcs, count
        self.frames += frames
        self.lived += lived
        self.fired = fired
        if self.keeps_links and (last or fired != 0):
            self.gave_lattice, self.has_begun = True, False
            return self._forget()
        self.state, self.spare = self.spare, self.state
        if self.keeps_links:
            self.links, self.spare_links = self.spare_links, self.links
        self.has_begun = True
        return 0

    cdef int _forget(self) except -1:
        """Gives the memory back once the sentence has given its lattice."""
        cdef LinkRoom links
        self.even.clear()
        self.odd.clear()
        self.state, self.spare = StateRoom(0, 0, 0, 0), StateRoom(0, 0, 0, 1)
        for links in (self.links, self.spare_links):
            links.memory.clear()
            links.links = links.steps = links.entries = 0
        return 0
