"""A group of utterances on its way through a device, searched with a beam."""

from libc.stdint cimport uintptr_t
from libc.string cimport memset
from libcpp.vector cimport vector

from arcbeam.gpu._driver_table cimport forked
from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.gpu._memory cimport copy_on_device, copy_to_device, copy_to_host, set_bytes
from arcbeam.transducer.beam._lists cimport Lists
from arcbeam.transducer.gpu._beam_memory cimport (
    BeamParams, Ended, Hypothesis, kParts, Label, Lane, lay_out, list_ended, ListOptions, Memory, Rooms, Sizes,
)
from arcbeam.transducer.gpu._beam_states cimport PackedStates
from arcbeam.transducer.gpu._lazy_pool cimport LazyPool
from arcbeam.transducer.gpu._network cimport kKeyBuffers, LaneOutcome, padded16, Statistic, value_bytes

from arcbeam.core.threads import usable_cores
from arcbeam.gpu.tuned import transducer_plan

cdef enum:
    WORD_BYTES = 32  # at the start of the control memory
    COUNTER_BYTES = 32  # two counts of three rounds; whether an utterance waits for room; what states take


cdef class BeamGroup(Group):
    """Beside what its base has: the hypotheses and histories of the group, which grow when there is no room."""

    def __init__(self, pool, stream, precision, options):
        memset(&self.launched, 0, sizeof(self.launched))
        self.beam, self.fused = &self.launched.search.search, &self.launched.search.fusion
        self.options = options
        self.lattices = Lattices(self.pool, self.stream, options)
        self.arena = DeviceBuffer(self.pool, self.stream, "the hypotheses")
        self.arena_before = DeviceBuffer(self.pool, self.stream, "the hypotheses")
        self.packed = DeviceBuffer(self.pool, self.stream, "the states of streams")
        self.states = PackedStates(HostBuffer(self.pool.context))
        self.threads = new LazyPool(options.threads or transducer_plan.host_threads(usable_cores()))

    def __dealloc__(self):
        if not forked():  # in a forked child the threads do not exist, and joining them would never end
            del self.threads

    cdef dict memory(self):
        found = Group.memory(self)
        found["hypotheses"] += self.arena.capacity + self.arena_before.capacity + self.packed.capacity
        found["hypotheses"] += self.lattices.capacity()
        found["pinned"] += self.states.host.pinned_bytes() + self.lattices.host.pinned_bytes()
        return found

    cdef void clear(self) noexcept nogil:
        Group.clear(self)
        self.arena.clear()
        self.arena_before.clear()
        self.packed.clear()
        self.lattices.clear()

    cdef int release(self) except -1:
        self.states.host = HostBuffer(self.pool.context)
        self.lattices.release()
        return Group.release(self)

    cdef int begin(self, const int64_t[:, ::1] utterances, list states, bint on_host) except -1:
        """Sends utterances, the longest first; all of them have states, or none has."""
        cdef uint32_t n = <uint32_t> utterances.shape[0], most = self.params.most_tests
        cdef uint64_t start
        self._reserve_rows(self._count_frames(utterances))
        self.beam.beam.sizes.precision = self.precision
        self.beam.beam.sizes.lanes = n
        self.beam.beam.sizes.hypotheses = self.options.max_hypotheses
        self.beam.beam.sizes.frames = max(<uint32_t> max(self.options.durations or (1,)), <uint32_t> 1) + 1
        self.beam.beam.sizes.durations = max(<uint32_t> 1, self.params.network.durations)
        self.beam.beam.sizes.layers = max(<uint32_t> 1, self.params.network.num_layers)
        self.beam.beam.sizes.unit_stride, self.beam.beam.sizes.joint_stride = self.unit_stride, self.joint_stride
        self.beam.beam.sizes.context = self.params.network.context
        self.beam.beam.beam, self.beam.beam.sums = self.options.beam, self.options.merge == "sum"
        bucket, nodes, labels, slots = transducer_plan.beam_rooms(int(utterances[0, 2]), self.options.max_hypotheses)
        self.beam.beam.settle_frames = self.options.settle_frames or 0
        self.are_streams = states[0] is not None
        if self.are_streams:
            self._measure(states)
            bucket, labels, slots = bucket + self.states.bucket, labels + self.states.labels, slots + self.states.slots
            nodes = 1 << (nodes + self.states.nodes - 1).bit_length()
        self.beam.beam.memory.rooms = Rooms(bucket, nodes, labels, slots)
        self.arena_before.clear()
        memset(&self.beam.beam.before, 0, sizeof(self.beam.beam.before))
        self._lay_out(self.arena)
        if self.has_contexts:
            self.lattices.begin(&self.launched.lattices, n, <uint32_t> utterances[0, 2], nodes, self.keeps_lattices)
        # counters and keys | requests | hidden layers and logits
        self.cleared = COUNTER_BYTES + 2 * kKeyBuffers * 8 * <uint64_t> most
        self.predictions_at = self.cleared + padded16(5 * 4 * <uint64_t> most)
        self.logits_at = self.predictions_at + 4 * <uint64_t> most * self.joint_stride
        self.work.reserve(self.logits_at + 4 * <uint64_t> most * self.params.network.output.rows, False)
        set_bytes(self.work.address, 0, self.cleared, self.stream)
        self._fill_control(utterances, [None] * n, self._send_frames(utterances) if on_host else 0)
        start = self.work.address
        self.beam.beam.counters = <uint32_t*> <uintptr_t> start
        self.beam.beam.needs_room = self.beam.beam.counters + 2 * kKeyBuffers
        self.beam.beam.packed_pieces = self.beam.beam.needs_room + 1
        self.params.keys = <uint64_t*> <uintptr_t> (start + COUNTER_BYTES)
        self.beam.beam.test_slot = <uint32_t*> <uintptr_t> (start + self.cleared)
        self.beam.beam.test_row = self.beam.beam.test_slot + most
        self.beam.beam.step_from = self.beam.beam.test_row + most
        self.beam.beam.step_to = self.beam.beam.step_from + most
        self.beam.beam.step_token = self.beam.beam.step_to + most
        self.params.joined = <void*> <uintptr_t> (start + self.predictions_at)
        self.params.logits = <float*> <uintptr_t> (start + self.logits_at)
        with nogil:
            copy_to_device(self.control.address, self.control_host.data, self.layout.bytes, self.stream)
        self.beam.beam.packed = NULL
        self.beam.beam.from_states, self.beam.beam.num_restored = 0, 0
        if self.are_streams:
            self._send_packed(utterances)
        else:
            self._send_lanes(utterances)
        return 0

    cdef int _measure(self, list states) except -1:
        """What the states of a batch need."""
        cdef Sizes* sizes = &self.beam.beam.sizes
        self.states.units = self.params.network.units
        self.states.sizes.frames, self.states.sizes.has_models = sizes.frames, sizes.addends > 0
        self.states.sizes.layers, self.states.sizes.unit_stride = self.params.network.num_layers, sizes.unit_stride
        self.states.sizes.value_bytes, self.states.sizes.context = value_bytes(self.precision), sizes.context
        return self.states.measure(states)

    cdef int _send_packed(self, const int64_t[:, ::1] utterances) except -1:
        """Sends the states of a batch; the same memory takes those after the chunks."""
        cdef BeamParams* beam = &self.beam.beam
        self._reserve_packed()
        self.states.pack(utterances, beam.memory.rooms.slots, self.threads[0])
        beam.from_states, beam.num_restored = 1, self.states.restored
        beam.restored = <const uint32_t*> <uintptr_t> (self.packed.address + self.states.restored_at)
        with nogil:
            copy_to_device(self.packed.address, self.states.host.data, self.states.bytes, self.stream)
        return 0

    cdef int _reserve_packed(self) except -1:
        """Room for the states before the chunks, and for what comes back."""
        cdef Rooms* rooms = &self.beam.beam.memory.rooms
        cdef uint64_t most = self.states.most_bytes(rooms.bucket, rooms.nodes, rooms.labels, rooms.slots)
        cdef uint64_t before = self.packed.capacity
        self.packed.reserve(max(most, self.states.bytes), False)
        if self.packed.capacity > before:  # more may be fetched than chunks leave
            set_bytes(self.packed.address, 0, self.packed.capacity, self.stream)
        self.beam.beam.packed = <unsigned char*> <uintptr_t> self.packed.address
        return 0

    cdef int _reserve_rows(self, uint64_t frames) except -1:
        """Room for the projected frames; for an internal language model, also one of zeros."""
        cdef bint fuses = self.fusion is not None
        if fuses:
            self.fused[0] = self.fusion.beam
            self.fused.no_encoder_row = <uint32_t> frames
        self.beam.beam.sizes.addends = self.params.network.tokens if fuses else 0
        self.beam.beam.sizes.has_ilm = self.fused.has_ilm if fuses else 0
        self._reserve_projected(frames + self.beam.beam.sizes.has_ilm)
        if self.beam.beam.sizes.has_ilm:
            set_bytes(self.projected.address + 4 * frames * self.joint_stride, 0, 4 * self.joint_stride, self.stream)
        return 0

    cdef int _lay_out(self, DeviceBuffer arena) except -1:
        """Lays the arrays out in memory that is 0."""
        cdef Memory* memory = &self.beam.beam.memory
        self.arena_bytes = lay_out(self.beam.beam.sizes, memory.rooms, 0, memory[0], self.returned)
        arena.reserve(self.arena_bytes, False)
        set_bytes(arena.address, 0, self.arena_bytes, self.stream)
        lay_out(self.beam.beam.sizes, memory.rooms, arena.address, memory[0], self.returned)
        return 0

    cdef int _send_lanes(self, const int64_t[:, ::1] utterances) except -1:
        cdef Lane* lanes
        cdef uint32_t row = 0
        cdef Py_ssize_t i
        self.results_host.reserve(self.returned)
        lanes = <Lane*> self.results_host.data
        memset(lanes, 0, <size_t> utterances.shape[0] * sizeof(Lane))
        for i in range(utterances.shape[0]):
            lanes[i].frames, lanes[i].first_row = <uint32_t> utterances[i, 2], row
            row += lanes[i].frames
        with nogil:
            copy_to_device(<uint64_t> <uintptr_t> self.beam.beam.memory.lanes, lanes,
                           <size_t> utterances.shape[0] * sizeof(Lane), self.stream)
            self.stream.synchronize()  # the same memory takes the results
        return 0

    cdef int prepare(self) except -1:
        self.beam.loop = self.params
        self.results_host.reserve(self.returned)
        return 0

    cdef void* launch_params(self) noexcept:
        return &self.launched

    cdef int fetch(self) except -1 nogil:
        copy_to_host(self.control_host.data, self.control.address, WORD_BYTES, self.stream)
        if self.are_streams:
            copy_to_host(self.states.host.data, self.packed.address, self._fetched_bytes(), self.stream)
        else:
            copy_to_host(self.results_host.data, self.arena.address, self.returned, self.stream)
        return 0

    cdef uint64_t _fetched_bytes(self) noexcept nogil:
        """Of what chunks leave, the beginning that is fetched with the results."""
        return min(self.states.expected, <uint64_t> self.packed.capacity)

    cdef bint fetches_at_once(self) noexcept nogil:
        return Group.fetches_at_once(self) and (not self.are_streams or self.states.host.is_pinned())

    cdef int grow(self) except -1:
        """Doubles the room of all utterances. The next launch takes over what they have."""
        cdef Rooms* rooms = &self.beam.beam.memory.rooms
        cdef DeviceBuffer larger = DeviceBuffer(self.pool, self.stream, "the hypotheses")
        self.beam.beam.before = self.beam.beam.memory
        rooms.bucket, rooms.nodes, rooms.labels, rooms.slots = 2 * rooms.bucket, 2 * rooms.nodes, 2 * rooms.labels, 2 * rooms.slots
        self._lay_out(larger)
        self.arena_before, self.arena = self.arena, larger
        if self.has_contexts:
            self.lattices.grow(rooms.nodes)
        copy_on_device(<uint64_t> <uintptr_t> self.beam.beam.memory.lanes, <uint64_t> <uintptr_t> self.beam.beam.before.lanes,
                       self.beam.beam.sizes.lanes * sizeof(Lane), self.stream)
        set_bytes(self.control.address, 0, WORD_BYTES, self.stream)
        set_bytes(self.work.address, 0, self.cleared, self.stream)
        self.beam.beam.from_states, self.beam.beam.num_restored = 0, 0
        if self.are_streams:
            self._reserve_packed()
        return 0

    cdef int collect(self, members, list states, fused, list results, list bad) except -1:
        """Takes over all lanes: (take, lane) by member, in `bad` what is not finite."""
        cdef const unsigned char* host = <const unsigned char*> self.results_host.data
        cdef const Memory* memory = &self.beam.beam.memory
        cdef uint64_t first = self.arena.address
        cdef const Lane* lanes = <const Lane*> host
        cdef const Hypothesis* live = <const Hypothesis*> (host + (<uint64_t> <uintptr_t> memory.live - first))
        cdef const Label* log = <const Label*> (host + (<uint64_t> <uintptr_t> memory.log - first))
        cdef const double* parts = NULL
        cdef uint32_t i, k, m, most = self.beam.beam.sizes.hypotheses
        cdef vector[Ended] ended
        cdef Lists found = Lists()
        cdef ListOptions options
        cdef Ended one
        found.of.resize(self.beam.beam.sizes.lanes)
        if self.are_streams:
            return self._collect_packed(members, found, results, bad)
        options.length_power = self.options.length_power
        options.has_durations = self.params.network.durations > 0
        options.has_confidences = self.params.confidence.statistic != Statistic.none
        if self.fusion is not None:
            parts = <const double*> (host + (<uint64_t> <uintptr_t> memory.parts - first))
        for i in range(self.beam.beam.sizes.lanes):
            if lanes[i].outcome != LaneOutcome.decoded:
                known = (lanes[i].bad_feature, lanes[i].bad_value) if lanes[i].outcome == LaneOutcome.bad_input else ()
                bad.append((int(members[i]), lanes[i].bad_frame, *known))
                continue
            ended.clear()
            for k in range(lanes[i].live):
                one.score, one.log = live[<size_t> i * most + k].score, live[<size_t> i * most + k].log
                for m in range(kParts):
                    one.shares[m] = 0.0 if parts == NULL else parts[(<size_t> i * most + k) * kParts + m]
                ended.push_back(one)
            with nogil:
                list_ended(options, lanes[i].offset, ended, log + <size_t> i * memory.rooms.labels, found.of[i])
        if self.keeps_lattices:
            self.lattices.collect(lanes, self.params.blank, self.threads[0], found.lattices)
        for i, member in enumerate(members):
            results[member] = (found.take, i, None)
        return 0

    cdef int _collect_packed(self, members, Lists found, list results, list bad) except -1:
        """The same of chunks, which leave states."""
        cdef uint64_t fetched = self._fetched_bytes(), bytes = self.states.returned()
        if bytes > fetched:
            self.states.host.reserve(bytes)
            with nogil:
                copy_to_host(self.states.host.data, self.packed.address, bytes, self.stream)
                self.stream.synchronize()
        return self.states.collect(members, self.options, self.params.network.durations > 0,
                                   self.params.confidence.statistic != Statistic.none, self.threads[0], found, results,
                                   bad)
