"""The lattices and contexts of a group of utterances that is searched with a beam."""

from libc.stdint cimport uintptr_t
from libc.string cimport memset

from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._memory cimport copy_to_host, set_bytes
from arcbeam.transducer.gpu._lazy_pool cimport LazyPool
from arcbeam.transducer.gpu._network cimport LaneOutcome

from arcbeam.gpu.tuned import transducer_plan


cdef class Lattices:
    """What kernels write down of a group for lattices, and the contexts of its histories where they merge."""

    def __init__(self, pool, stream, options):
        self.pool, self.stream, self.options = pool, stream, options
        self.arena = DeviceBuffer(pool, stream, "the lattices")
        self.before = DeviceBuffer(pool, stream, "the lattices")
        self.host = HostBuffer(pool.context)

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

    cdef int release(self) except -1:
        """Gives back the host's memory."""
        self.host = HostBuffer(self.pool.context)
        return 0

    cdef int collect(self, const Lane* lanes, uint32_t blank, LazyPool& threads, vector[Lattice]& into) except -1:
        """Makes a lattice of each utterance that was decoded, once the launch has ended."""
        cdef const LatticeMemory* memory = &self.params.memory
        cdef vector[LatticeCounts] counts
        cdef vector[uint64_t] tokens, arcs, contexts  # bytes of each utterance, and then their places
        cdef vector[uint32_t] durations
        cdef vector[Recorded] recorded
        cdef RowCopies copies
        cdef Copy copy
        cdef const unsigned char* host
        cdef uint32_t i, max_symbols = self.options.max_symbols
        cdef bint merges = self.params.merge_context > 0
        for duration in self.options.durations or (0,):
            durations.push_back(duration)
        counts.resize(self.lanes)
        recorded.resize(self.lanes)
        with nogil:
            copy_to_host(counts.data(), <uint64_t> <uintptr_t> memory.counts, self.lanes * sizeof(LatticeCounts), self.stream)
            self.stream.synchronize()
            for i in range(self.lanes):
                tokens.push_back(counts[i].tokens * sizeof(TokenRecord))
                arcs.push_back(counts[i].arcs * sizeof(ArcRecord))
                contexts.push_back(lanes[i].nodes * sizeof(uint32_t) if merges else 0)
            tokens = copies.add(<uint64_t> <uintptr_t> memory.tokens, memory.rooms.tokens * sizeof(TokenRecord), tokens)
            arcs = copies.add(<uint64_t> <uintptr_t> memory.arcs, memory.rooms.arcs * sizeof(ArcRecord), arcs)
            contexts = copies.add(<uint64_t> <uintptr_t> memory.contexts, memory.rooms.nodes * sizeof(uint32_t), contexts)
            self.host.reserve(copies.bytes())
            host = <const unsigned char*> self.host.data
            for i in range(copies.all().size()):
                copy = copies.all()[i]
                copy_to_host(<unsigned char*> self.host.data + copy.to, copy.from_, copy.bytes, self.stream)
            self.stream.synchronize()
            for i in range(self.lanes):
                if lanes[i].outcome != LaneOutcome.decoded:
                    continue
                recorded[i].tokens, recorded[i].num_tokens = <const TokenRecord*> (host + tokens[i]), counts[i].tokens
                recorded[i].arcs, recorded[i].num_arcs = <const ArcRecord*> (host + arcs[i]), counts[i].arcs
                recorded[i].contexts = <const uint32_t*> (host + contexts[i]) if merges else NULL
                recorded[i].durations, recorded[i].frames = durations.data(), lanes[i].frames
                recorded[i].blank, recorded[i].max_symbols = blank, max_symbols
            make_lattices(recorded, threads, into)
        return 0
