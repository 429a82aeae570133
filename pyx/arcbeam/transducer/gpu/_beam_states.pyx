"""States of streams on their way to a device and back."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.gpu._host_buffers cimport HostBuffer
from arcbeam.transducer.beam._lists cimport Lists, NBest
from arcbeam.transducer.beam._state cimport BeamState, CppBeamState, FusionStates
from arcbeam.transducer.gpu._lazy_pool cimport LazyPool


cdef extern from "transducer/lane_outcome.hpp" namespace "arcbeam::transducer" nogil:
    cdef enum class LaneOutcome(uint32_t):
        decoded
        bad_input
        not_finite


cdef extern from "transducer/beam/device_state.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct DeviceLane:
        LaneOutcome outcome
        uint32_t bad_frame
        uint32_t bad_feature
        float bad_value

    cdef struct PackedLane:
        DeviceLane lane


cdef extern from "transducer/beam/ending.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct ListOptions:
        float length_power
        cbool has_durations
        cbool has_confidences


cdef extern from "arcbeam/transducer/gpu/_beam_states/packed_states.hpp" namespace "arcbeam::transducer::beam" nogil:
    cdef struct StateNeeds:
        uint32_t last_frame
        uint32_t bucket
        uint32_t nodes
        uint32_t labels
        uint32_t slots
        uint32_t restored
        uint64_t restored_at
        uint64_t bytes

    cdef struct EndOptions:
        ListOptions list
        float beam
        uint32_t max_hypotheses
        cbool sums

    cdef cppclass Chunk:
        const CppBeamState* before
        CppBeamState* state
        NBest* list
        size_t settled
        FusionStates models

    StateNeeds needs_of(const vector[const CppBeamState*]&, const PackedSizes&) except +
    void cpp_pack "arcbeam::transducer::beam::pack"(
        const vector[const CppBeamState*]&, const vector[uint32_t]&, const StateNeeds&, const PackedSizes&, uint32_t,
        uint32_t, LazyPool&, unsigned char*) except +
    uint64_t cpp_most_bytes "arcbeam::transducer::beam::most_bytes"(
        uint32_t, const PackedSizes&, uint64_t, uint64_t, uint64_t, uint64_t)
    uint64_t returned_bytes(const unsigned char*, uint32_t, const PackedSizes&)
    void unpack(const unsigned char*, const PackedSizes&, uint32_t, const EndOptions&, LazyPool&,
                vector[Chunk]&) except +

cdef enum:
    FIRST_BYTES = 1 << 12  # of a stream that come back, as long as nothing else is known


cdef class PackedStates:
    """The states of one batch of chunks after the other, in the memory of the host."""

    def __init__(self, HostBuffer host):
        self.host, self.states = host, []

    cdef int measure(self, list states) except -1:
        """Takes these states, and finds out what they need."""
        cdef vector[const CppBeamState*] of
        cdef StateNeeds needs
        self.states = states
        for state in states:
            of.push_back(&(<BeamState?> state).of)
        with nogil:
            needs = needs_of(of, self.sizes)
        if needs.last_frame + 1 >= self.sizes.frames:
            raise ValueError(f"state: expected hypotheses up to frame {self.sizes.frames - 2} after its chunks, as the "
                             f"decoder's durations allow, got one on frame {needs.last_frame}; restore the state with "
                             "stream.restore() of a decoder with the same options")
        self.bucket, self.nodes, self.labels, self.slots = needs.bucket, needs.nodes, needs.labels, needs.slots
        self.restored, self.restored_at, self.bytes = needs.restored, needs.restored_at, needs.bytes
        self.expected = max(self.expected, self.bytes + FIRST_BYTES * <uint64_t> len(states))
        return 0

    cdef int pack(self, const int64_t[:, ::1] utterances, uint32_t slots, LazyPool& threads) except -1:
        """Packs them, of chunks of so many frames, of which each has so many slots."""
        cdef vector[const CppBeamState*] of
        cdef vector[uint32_t] frames
        cdef StateNeeds needs
        cdef Py_ssize_t i
        needs.restored, needs.restored_at, needs.bytes = self.restored, self.restored_at, self.bytes
        for i, state in enumerate(self.states):
            of.push_back(&(<BeamState> state).of)
            frames.push_back(<uint32_t> utterances[i, 2])
        self.host.reserve(max(self.bytes, self.expected))
        with nogil:
            cpp_pack(of, frames, needs, self.sizes, self.units, slots, threads, <unsigned char*> self.host.data)
        return 0

    cdef uint64_t most_bytes(self, uint64_t bucket, uint64_t nodes, uint64_t labels, uint64_t slots) noexcept:
        """Bytes that come back at most, of chunks with so much room."""
        return cpp_most_bytes(<uint32_t> len(self.states), self.sizes, bucket * self.sizes.frames, nodes, labels, slots)

    cdef uint64_t returned(self) noexcept:
        """Bytes that have to come back, once the first `expected` have."""
        cdef uint64_t bytes = returned_bytes(<const unsigned char*> self.host.data, <uint32_t> len(self.states), self.sizes)
        self.expected = bytes + bytes // 4
        return bytes

    cdef int collect(self, members, options, bint has_durations, bint has_confidences, LazyPool& threads, Lists found,
                     list results, list bad) except -1:
        """Takes over all chunks: (take, lane, what it leaves) by member, in `bad` what is not finite."""
        cdef const unsigned char* data = <const unsigned char*> self.host.data
        cdef const PackedLane* lanes = <const PackedLane*> data
        cdef const DeviceLane* lane
        cdef EndOptions end
        cdef vector[Chunk] chunks
        cdef Chunk* one
        cdef uint32_t i
        end.list.length_power = options.length_power
        end.list.has_durations, end.list.has_confidences = has_durations, has_confidences
        end.beam, end.max_hypotheses, end.sums = options.beam, options.max_hypotheses, options.merge == "sum"
        chunks.resize(len(self.states))
        after, take = [], found.take
        for i, before in enumerate(self.states):
            one = &chunks[i]
            made = BeamState() if lanes[i].lane.outcome == LaneOutcome.decoded else before
            one.before, one.list = &(<BeamState> before).of, &found.of[i]
            if made is not before:
                one.state = &(<BeamState> made).of
            after.append(made)
        with nogil:
            unpack(data, self.sizes, self.units, end, threads, chunks)
        for i, member in enumerate(members):
            one, lane = &chunks[i], &lanes[i].lane
            if one.state == NULL:
                known = (lane.bad_feature, lane.bad_value) if lane.outcome == LaneOutcome.bad_input else ()
                bad.append((int(member), lane.bad_frame, *known))
            models = one.models.of[0], one.models.of[1], one.models.of[2]
            results[member] = (take, i, (after[i], one.settled, models))
        self.states = []
        return 0
