# distutils: extra_compile_args = -O3
"""The lanes of an engine. Their memory grows by what they lack after a launch, and those that stopped continue."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t, uint64_t, uintptr_t

from arcbeam.ctc.gpu.searches._rescoring_view cimport kNeedsRequestRoom
from arcbeam.ctc.gpu.searches._search cimport LaneRoom
from arcbeam.ctc.gpu.searches._search_view cimport LatticeLane, Link, Need, kNeedsLinks, kNeedsStreamRoom, kNoIndex


cdef class Lanes:
    """Memory of lanes, kept from batch to batch. A lane's state is in the memory of the batch, in the same order."""

    def __cinit__(self, SearchKind kind not None, MemoryPool pool not None, Stream stream not None):
        self.kind, self.pool, self.stream = kind, pool, stream
        self.rooms = []

    cdef int have(self, uint32_t lanes, uint64_t states, uint64_t log_entries) except -1:
        """Makes so many lanes, each with room for so much. No lane may be at work."""
        cdef LaneRoom room
        if lanes <= self.had_lanes and states <= self.had_states and log_entries <= self.had_log_entries:
            return 0
        self.had_lanes = 0
        while len(self.rooms) < lanes:
            self.rooms.append(LaneRoom(self.kind, self.pool, self.stream))
        for room in self.rooms[:lanes]:
            room.grow_spill(states, 0)
            room.grow_log(log_entries)
        self.had_lanes, self.had_states, self.had_log_entries = lanes, states, log_entries
        return 0

    cdef int begin(self, LaneState* states, uint32_t lanes) except -1:
        """Call this before the first launch of a window: no lane has an utterance."""
        cdef LaneRoom room
        for i in range(lanes):
            room = self.rooms[i]
            room.describe(&states[i])
            states[i].utterance = kNoIndex
        return 0

    cdef int grow(self, LaneState* states, uint32_t lanes, Undone* undone) except -1:
        """Doubles the memory that lanes lack; says what else they lack."""
        cdef LaneState* state
        cdef LaneRoom room
        undone.lanes, undone.paths, undone.requests, undone.streams = 0, False, False, False
        for i in range(lanes):
            state = &states[i]
            if state.need == Need.nothing:
                continue
            undone.lanes += 1
            room = self.rooms[i]
            if state.need == Need.spill:
                room.grow_spill(2 * room.capacity, state.num_tokens)
                self.most_states = max(self.most_states, room.capacity)
            elif state.need == Need.log:
                room.grow_log(2 * <uint64_t> state.log_capacity)
            elif state.need == kNeedsLinks:
                room.grow_links(2 * <uint64_t> room.link_capacity)
            elif state.need == Need.paths:
                undone.paths = True
            elif state.need == kNeedsRequestRoom:
                undone.requests = True
            elif state.need == kNeedsStreamRoom:
                undone.streams = True
            room.describe(state)
        return 0

    cdef int keep_stopped(self, LaneState* states, uint32_t lanes) except -1:
        """Moves the lanes that have stopped to the front; returns how many."""
        cdef LaneState spare
        cdef uint32_t i, kept = 0
        for i in range(lanes):
            if states[i].need != Need.nothing:
                spare = states[kept]
                states[kept] = states[i]
                states[i] = spare
                self.rooms[kept], self.rooms[i] = self.rooms[i], self.rooms[kept]
                kept += 1
        return kept

    cdef int have_spills(self, LaneState* states, uint32_t lanes, uint32_t capacity) except -1:
        """Makes room for so many states in lanes that have stopped."""
        cdef LaneRoom room
        for i in range(lanes):
            room = self.rooms[i]
            room.grow_spill(capacity, states[i].num_tokens)
            room.describe(&states[i])
        return 0

    # Lattices

    cdef int have_links(self, uint32_t lanes, uint64_t links) except -1:
        """Makes room for so many links in each lane."""
        cdef LaneRoom room
        for room in self.rooms[:lanes]:
            room.grow_links(links)
        return 0

    cdef int forget_links(self) except -1:
        """No lane holds links."""
        cdef LaneRoom room
        for room in self.rooms:
            room.num_links = 0
        return 0

    cdef int describe_links(self, LatticeLane* states, uint32_t lanes) except -1:
        """Tells the kernel where the memory is."""
        cdef LaneRoom room
        for i in range(lanes):
            room = self.rooms[i]
            states[i].costs = <float*> <uintptr_t> room.costs.address
            states[i].links = <Link*> <uintptr_t> room.links.address
            states[i].link_capacity, states[i].num_links = room.link_capacity, room.num_links
        return 0

    cdef uint32_t links_of(self, uint32_t lane) except? 0:
        """How many links a lane held after the last launch."""
        cdef LaneRoom room = self.rooms[lane]
        return room.num_links

    cdef int note_links(self, const LatticeLane* states, uint32_t lanes) except -1:
        """Keeps how many links the lanes hold after a launch."""
        cdef LaneRoom room
        for i in range(lanes):
            room = self.rooms[i]
            room.num_links = states[i].num_links
        return 0

    cdef int clear(self) except -1:
        """Gives all memory back."""
        self.rooms, self.most_states, self.had_lanes = [], 0, 0
        return 0

    cdef size_t room_bytes(self):
        cdef LaneRoom room
        cdef size_t bytes = 0
        for room in self.rooms:
            bytes += room.work.capacity + room.tokens.capacity
        return bytes

    cdef size_t log_bytes(self):
        cdef LaneRoom room
        cdef size_t bytes = 0
        for room in self.rooms:
            bytes += room.log.capacity + room.costs.capacity + room.links.capacity
        return bytes
