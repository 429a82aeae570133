"""The lattices and contexts of a group of utterances that is searched with a beam."""

from libc.stdint cimport uintptr_t
from libc.string cimport memset

from arcbeam.gpu._memory cimport copy_to_host, set_bytes
from arcbeam.transducer.gpu._network cimport LaneOutcome

from arcbeam.gpu.tuned import transducer_plan


cdef class Lattices:
    """What kernels write down of a group for lattices, and the contexts of its histories where they merge."""

    def __init__(self, pool, stream, options):
        self.pool, self.stream, self.options = pool, stream, options
        self.arena = DeviceBuffer(pool, stream, "the lattices")
        self.before = DeviceBuffer(pool, stream, "the lattices")

    cdef uint64_t capacity(self) noexcept nogil:
        """Bytes on the device."""
        return self.arena.capacity + self.before.capacity

    cdef void clear(self) noexcept nogil:
        self.arena.clear()
        self.before.clear()

    cdef int begin(self, LatticeParams* params, uint32_t lanes, uint32_t frames, uint32_t nodes, bint keeps) except -1:
        """Room for so many utterances, of which the longest has so many frames."""
        memset(params, 0, sizeof(params[0]))
        self.params, self.lanes = params, lanes
        params.keeps, params.merge_context = keeps, self.options.merge_context or 0
        tokens, arcs = transducer_plan.lattice_rooms(int(frames), self.options.max_hypotheses)
        params.memory.rooms = LatticeRooms(tokens, arcs, nodes)
        self.before.clear()
        return self._lay_out(self.arena)

    cdef int grow(self, uint32_t nodes) except -1:
        """Doubles the room. The next launch takes over what is there."""
        cdef LatticeRooms* rooms = &self.params.memory.rooms
        cdef DeviceBuffer larger = DeviceBuffer(self.pool, self.stream, "the lattices")
        self.params.before = self.params.memory
        rooms.tokens, rooms.arcs, rooms.nodes = 2 * rooms.tokens, 2 * rooms.arcs, nodes
        self._lay_out(larger)
        self.before, self.arena = self.arena, larger
        return 0

    cdef int _lay_out(self, DeviceBuffer arena) except -1:
        """Lays the arrays out in memory that is 0."""
        cdef uint64_t bytes = lay_out_lattices(self.lanes, 0, self.params[0])
        arena.reserve(bytes, False)
        set_bytes(arena.address, 0, bytes, self.stream)
        lay_out_lattices(self.lanes, arena.address, self.params[0])
        return 0

    cdef int collect(self, const Lane* lanes, uint32_t blank, vector[Lattice]& into) except -1:
        """Makes a lattice of each utterance that was decoded, once the launch has ended."""
        cdef const LatticeMemory* memory = &self.params.memory
        cdef vector[LatticeCounts] counts
        cdef vector[TokenRecord] tokens
        cdef vector[ArcRecord] arcs
        cdef vector[uint32_t] contexts, durations
        cdef size_t num_tokens = 0, num_arcs = 0, num_contexts = 0
        cdef uint32_t i
        cdef bint merges = self.params.merge_context > 0
        cdef Recorded one
        for duration in self.options.durations or (0,):
            durations.push_back(duration)
        memset(&one, 0, sizeof(one))
        one.durations, one.blank, one.max_symbols = durations.data(), blank, self.options.max_symbols
        counts.resize(self.lanes)
        into.resize(self.lanes)
        with nogil:
            copy_to_host(counts.data(), <uint64_t> <uintptr_t> memory.counts, self.lanes * sizeof(LatticeCounts), self.stream)
            self.stream.synchronize()
            for i in range(self.lanes):
                num_tokens += counts[i].tokens
                num_arcs += counts[i].arcs
                num_contexts += lanes[i].nodes if merges else 0
            tokens.resize(num_tokens)
            arcs.resize(num_arcs)
            contexts.resize(num_contexts)
            num_tokens, num_arcs, num_contexts = 0, 0, 0
            for i in range(self.lanes):
                copy_to_host(tokens.data() + num_tokens,
                             <uint64_t> <uintptr_t> (memory.tokens + <size_t> i * memory.rooms.tokens),
                             counts[i].tokens * sizeof(TokenRecord), self.stream)
                copy_to_host(arcs.data() + num_arcs, <uint64_t> <uintptr_t> (memory.arcs + <size_t> i * memory.rooms.arcs),
                             counts[i].arcs * sizeof(ArcRecord), self.stream)
                if merges:
                    copy_to_host(contexts.data() + num_contexts,
                                 <uint64_t> <uintptr_t> (memory.contexts + <size_t> i * memory.rooms.nodes),
                                 lanes[i].nodes * sizeof(uint32_t), self.stream)
                    num_contexts += lanes[i].nodes
                num_tokens += counts[i].tokens
                num_arcs += counts[i].arcs
            self.stream.synchronize()
            num_tokens, num_arcs, num_contexts = 0, 0, 0
            for i in range(self.lanes):
                one.tokens, one.num_tokens = tokens.data() + num_tokens, counts[i].tokens
                one.arcs, one.num_arcs = arcs.data() + num_arcs, counts[i].arcs
                one.contexts = contexts.data() + num_contexts if merges else NULL
                one.frames = lanes[i].frames
                if lanes[i].outcome == LaneOutcome.decoded:
                    into[i] = lattice_of(one)
                num_tokens += counts[i].tokens
                num_arcs += counts[i].arcs
                num_contexts += lanes[i].nodes if merges else 0
        return 0
