"""A group of utterances on its way through a device: the data that the transducer kernels read, and their results."""

import numpy as np

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint16_t, uintptr_t
from libc.string cimport memcpy, memset

from arcbeam.gpu._memory cimport copy_on_device, copy_to_device, copy_to_host, set_bytes
from arcbeam.transducer.gpu._network cimport (
    EncoderView, FrameGroup, kKeyBuffers, LaneOutcome, LaneState, padded16, Record, Statistic, to_bfloat16, value_bytes,
)

from arcbeam.gpu.tuned import transducer_plan

cdef enum:
    FRAMES_OF_A_GROUP = 8  # FrameGroup::kFrames
    ARRIVED = 0  # words at the start of the control memory
    STATUS = 1
    ENDING = 2
    CANCELLED = 3
    CANCEL = 5
    WORD_BYTES = 32

# arcbeam::transducer::LaneState and Record
LANE = np.dtype([(name, np.uint32) for name in (
    "frame", "frames", "symbols", "window", "count", "steps", "outcome", "bad_frame", "bad_feature", "first_row", "fresh")]
    + [("bad_value", np.float32)])
RECORD = np.dtype([("token", np.uint32), ("frame", np.uint32), ("duration", np.uint32), ("log_prob", np.float32),
                   ("confidence", np.float32)])
BAD_INPUT = 1


cdef class Group:
    """The memory of one group after the other, copied on `stream`; `params` are those of the next launch."""

    def __cinit__(self, MemoryPool pool not None, Stream stream not None, Precision precision, options=None):
        self.pool, self.stream, self.precision = pool, stream, precision
        self.frames = DeviceBuffer(pool, stream, "the encoder output")
        self.projected = DeviceBuffer(pool, stream, "the projected frames")
        self.control = DeviceBuffer(pool, stream, "the batch")
        self.work = DeviceBuffer(pool, stream, "the states of the batch")
        self.records = DeviceBuffer(pool, stream, "the hypotheses")
        self.frames_host, self.control_host = HostBuffer(pool.context), HostBuffer(pool.context)
        self.results_host = HostBuffer(pool.context)
        memset(&self.params, 0, sizeof(self.params))

    cdef dict memory(self):
        return {"encoder_output": self.frames.capacity, "projected": self.projected.capacity,
                "hypotheses": self.records.capacity, "batch": self.control.capacity + self.work.capacity,
                "pinned": self.frames_host.pinned_bytes() + self.control_host.pinned_bytes() + self.results_host.pinned_bytes()}

    cdef void clear(self) noexcept nogil:
        """Frees the memory that grows, on the device."""
        self.frames.clear()
        self.projected.clear()
        self.control.clear()
        self.work.clear()
        self.records.clear()

    cdef int release(self) except -1:
        """Gives back the host's memory, after that of the device has been cleared."""
        self.frames_host, self.control_host = HostBuffer(self.pool.context), HostBuffer(self.pool.context)
        self.results_host = HostBuffer(self.pool.context)
        return 0

    cdef int begin(self, const int64_t[:, ::1] utterances, list states, bint on_host) except -1:
        """Sends utterances, the longest first."""
        cdef uint32_t n = <uint32_t> utterances.shape[0], layers = self.params.network.num_layers
        cdef uint32_t hidden_layers = max(layers, <uint32_t> 1)
        cdef uint32_t longest = <uint32_t> utterances[0, 2]
        cdef size_t at = 0, values
        cdef uint64_t rows = self._count_frames(utterances)
        values = <size_t> n * hidden_layers * self.unit_stride
        self.cell_at = 2 * value_bytes(self.precision) * values
        self.keys_at = self.cell_at + 4 * values
        at = 4 * <size_t> self.params.most_tests
        self.predictions_at = padded16(self.keys_at + 2 * kKeyBuffers * 2 * at)
        self.joined_at = self.predictions_at + 4 * <size_t> n * self.joint_stride
        self.logits_at = self.joined_at + at * self.joint_stride
        self.work.reserve(self.logits_at + at * self.params.network.output.rows, False)
        self._reserve_projected(rows)
        self.room = transducer_plan.first_room(longest)
        self.records.reserve(self._record_bytes(), False)
        set_bytes(self.records.address, 0, self._record_bytes(), self.stream)  # because all of it is copied back
        set_bytes(self.work.address, 0, self.joined_at, self.stream)
        self._fill_control(utterances, states, self._send_frames(utterances) if on_host else 0)
        self._send_states(states, values)
        with nogil:
            copy_to_device(self.control.address, self.control_host.data, self.layout.bytes, self.stream)
        self.params.resumed = 0
        return 0

    cdef uint64_t _count_frames(self, const int64_t[:, ::1] utterances) noexcept:
        """The frames of the group, and what depends on them."""
        cdef uint64_t rows = 0
        cdef Py_ssize_t i
        self.params.num_lanes = <uint32_t> utterances.shape[0]
        self.num_groups = 0
        for i in range(utterances.shape[0]):
            rows += <uint64_t> utterances[i, 2]
            self.num_groups += <uint32_t> ((utterances[i, 2] + FRAMES_OF_A_GROUP - 1) // FRAMES_OF_A_GROUP)
        self.joint_stride, self.unit_stride = self.params.network.output.stride, self.params.network.prediction.stride
        return rows

    cdef int _reserve_projected(self, uint64_t rows) except -1:
        self.projected.reserve(4 * max(rows, <uint64_t> 1) * self.joint_stride, False)
        if self.joint_stride != self.params.network.prediction.rows:  # the padding is read as well, four at a time
            set_bytes(self.projected.address, 0, 4 * rows * self.joint_stride, self.stream)
        return 0

    cdef void* launch_params(self) noexcept:
        """The parameters of the loop."""
        return &self.params

    cdef void describe(self, ProjectParams* params) noexcept:
        """The parameters for the projection of its frames."""
        memset(params, 0, sizeof(params[0]))
        params.network = self.params.network
        params.utterances = <const EncoderView*> <uintptr_t> (self.control.address + self.layout.views)
        params.groups = <const FrameGroup*> <uintptr_t> (self.control.address + self.layout.groups)
        params.projected = <float*> <uintptr_t> self.projected.address
        params.bad_inputs = <uint64_t*> <uintptr_t> (self.control.address + self.layout.bad)
        params.num_groups = self.num_groups

    cdef int prepare(self) except -1:
        """Call this before each launch of the loop."""
        self.params.records = <Record*> <uintptr_t> self.records.address
        self.params.room = self.room
        self.results_host.reserve(self.keys_at + self._record_bytes())
        return 0

    cdef size_t _record_bytes(self) noexcept nogil:
        return <size_t> self.params.num_lanes * self.room * sizeof(Record)

    cdef bint fetches_at_once(self) noexcept nogil:
        """Whether :meth:`fetch` does not wait for the launch."""
        return self.control_host.is_pinned() and self.results_host.is_pinned()

    cdef int fetch(self) except -1 nogil:
        """Call this after each launch: sends results on their way to the host."""
        copy_to_host(self.control_host.data, self.control.address, self.layout.returned, self.stream)
        copy_to_host(self.results_host.data, self.work.address, self.keys_at, self.stream)
        copy_to_host(<unsigned char*> self.results_host.data + self.keys_at, self.records.address,
                     self._record_bytes(), self.stream)
        return 0

    cdef uint32_t status(self) noexcept:
        return (<uint32_t*> self.control_host.data)[STATUS]

    cdef uint32_t ending(self) noexcept:
        return (<uint32_t*> self.control_host.data)[ENDING]

    cdef uint32_t* cancel_flag(self) noexcept:
        """The host's word that ends a launch."""
        return <uint32_t*> self.control_host.data + CANCEL

    cdef uint64_t cancel_flag_address(self) noexcept:
        return self.control.address + 4 * CANCEL

    cdef int grow(self) except -1:
        """Doubles the hypotheses' room, for all lanes."""
        cdef uint32_t room = 2 * self.room, i
        cdef size_t old = self.room * sizeof(Record), new = room * sizeof(Record)
        cdef const LaneState* lanes = <const LaneState*> (<unsigned char*> self.control_host.data + self.layout.lanes)
        cdef DeviceBuffer larger = DeviceBuffer(self.pool, self.stream, "the hypotheses")
        larger.reserve(self.params.num_lanes * new, False)
        set_bytes(larger.address, 0, self.params.num_lanes * new, self.stream)
        for i in range(self.params.num_lanes):
            copy_on_device(larger.address + i * new, self.records.address + i * old, lanes[i].count * sizeof(Record),
                           self.stream)
        self.records.clear()
        self.records, self.room = larger, room
        set_bytes(self.control.address, 0, WORD_BYTES, self.stream)
        set_bytes(self.work.address + self.keys_at, 0, self.predictions_at - self.keys_at, self.stream)
        self.params.resumed = 1
        return 0

    cdef uint64_t _send_frames(self, const int64_t[:, ::1] utterances) except? 0:
        """Packs encoder outputs of the host side by side and sends them; gives the address of the first."""
        cdef size_t features = self.params.network.features, at = 0, value, width
        cdef Py_ssize_t i, row
        cdef unsigned char* to
        cdef const unsigned char* source
        with nogil:
            for i in range(utterances.shape[0]):
                at += padded16((2 if utterances[i, 3] else 4) * features * <size_t> utterances[i, 2])
            self.frames.reserve(max(at, <size_t> 16), False)
            self.frames_host.reserve(max(at, <size_t> 16))
            at = 0
            for i in range(utterances.shape[0]):
                value = 2 if utterances[i, 3] else 4
                width = value * features
                to = <unsigned char*> self.frames_host.data + at
                source = <const unsigned char*> <uintptr_t> utterances[i, 0]
                if utterances[i, 1] == <int64_t> features:
                    memcpy(to, source, width * <size_t> utterances[i, 2])
                else:
                    for row in range(utterances[i, 2]):
                        memcpy(to + row * width, source + row * utterances[i, 1] * <int64_t> value, width)
                at += padded16(width * <size_t> utterances[i, 2])
            copy_to_device(self.frames.address, self.frames_host.data, at, self.stream)
        return self.frames.address

    cdef int _fill_control(self, const int64_t[:, ::1] utterances, list states, uint64_t sent) except -1:
        """Lanes, views and frame groups; `sent`: the address that the frames were sent to, 0 if they were there."""
        cdef uint32_t n = <uint32_t> utterances.shape[0], row = 0, frame
        cdef size_t features = self.params.network.features
        cdef Layout* layout = &self.layout
        cdef unsigned char* host
        cdef LaneState* lane
        cdef EncoderView* view
        cdef FrameGroup* group
        cdef Py_ssize_t i
        layout.lanes = WORD_BYTES
        layout.contexts = padded16(layout.lanes + n * sizeof(LaneState))
        layout.returned = padded16(layout.contexts + 4 * <size_t> n * self.params.network.context)
        layout.views = layout.returned
        layout.bad = layout.views + n * sizeof(EncoderView)
        layout.groups = padded16(layout.bad + 8 * <size_t> n)
        layout.bytes = padded16(layout.groups + self.num_groups * sizeof(FrameGroup) + 16)
        self.control_host.reserve(layout.bytes)
        self.control.reserve(layout.bytes, False)
        host = <unsigned char*> self.control_host.data
        memset(host, 0, layout.bytes)
        memset(host + layout.bad, 0xff, 8 * <size_t> n)
        group = <FrameGroup*> (host + layout.groups)
        for i in range(n):
            lane = <LaneState*> (host + layout.lanes) + i
            view = <EncoderView*> (host + layout.views) + i
            lane.frames, lane.first_row = <uint32_t> utterances[i, 2], row
            lane.window, lane.fresh = self.params.first_window, states[i] is None
            view.data = <const void*> <uintptr_t> (sent if sent else <uint64_t> utterances[i, 0])
            view.row_stride = <int64_t> features if sent else utterances[i, 1]
            view.frames, view.is_half = lane.frames, utterances[i, 3] != 0
            view.first_row = row
            if sent:
                sent += padded16((2 if utterances[i, 3] else 4) * features * <size_t> utterances[i, 2])
            frame = 0  # a range with that step would be an object of Python
            while frame < lane.frames:
                group.utterance, group.first_frame = <uint32_t> i, frame
                group += 1
                frame += FRAMES_OF_A_GROUP
            row += lane.frames
        self._fill_contexts(states)
        self.params.lanes = <LaneState*> <uintptr_t> (self.control.address + layout.lanes)
        self.params.contexts = <int32_t*> <uintptr_t> (self.control.address + layout.contexts)
        self.params.utterances = <const EncoderView*> <uintptr_t> (self.control.address + layout.views)
        self.params.bad_inputs = <const uint64_t*> <uintptr_t> (self.control.address + layout.bad)
        self.params.arrived = <uint32_t*> <uintptr_t> (self.control.address + 4 * ARRIVED)
        self.params.status = <uint32_t*> <uintptr_t> (self.control.address + 4 * STATUS)
        self.params.ending = <uint32_t*> <uintptr_t> (self.control.address + 4 * ENDING)
        self.params.cancelled = <uint32_t*> <uintptr_t> (self.control.address + 4 * CANCELLED)
        self.params.cancel = <const uint32_t*> <uintptr_t> (self.control.address + 4 * CANCEL)
        self.params.projected = <const float*> <uintptr_t> self.projected.address
        self.params.hidden = <void*> <uintptr_t> self.work.address
        self.params.cell = <float*> <uintptr_t> (self.work.address + self.cell_at)
        self.params.predictions = <float*> <uintptr_t> (self.work.address + self.predictions_at)
        self.params.joined = <void*> <uintptr_t> (self.work.address + self.joined_at)
        self.params.keys = <uint64_t*> <uintptr_t> (self.work.address + self.keys_at)
        self.params.logits = <float*> <uintptr_t> (self.work.address + self.logits_at)
        return 0

    cdef int _fill_contexts(self, list states) except -1:
        """The contexts that the lanes go on from: the last tokens of a stateless network, at first the blank alone."""
        cdef uint32_t places = self.params.network.context, k
        cdef Py_ssize_t i
        cdef unsigned char* host = <unsigned char*> self.control_host.data
        cdef int32_t* contexts = <int32_t*> (host + self.layout.contexts)
        cdef LaneState* lane
        for i, state in enumerate(states):
            if state is None:
                for k in range(places):
                    contexts[i * places + k] = <int32_t> self.params.blank if k + 1 == places else -1
                continue
            _, _, context, skip, _ = state
            for k in range(places):
                contexts[i * places + k] = context[k]
            lane = <LaneState*> (host + self.layout.lanes) + i
            lane.frame = <uint32_t> min(skip, lane.frames)
        return 0

    cdef int _send_states(self, list states, size_t values) except -1:
        """Hidden states and cells of lanes that go on."""
        cdef unsigned char* host
        cdef const float[::1] hidden, cell
        cdef size_t units = self.params.network.units, layers = self.params.network.num_layers, l, u
        cdef size_t stride = self.unit_stride, width = value_bytes(self.precision), at
        if layers == 0 or states.count(None) == len(states):
            return 0
        self.results_host.reserve((width + 4) * values)
        host = <unsigned char*> self.results_host.data
        memset(host, 0, (width + 4) * values)
        for i, state in enumerate(states):
            if state is None:
                continue
            hidden, cell, _, _, _ = state
            for l in range(layers):
                at = (<size_t> i * layers + l) * stride
                memcpy(host + width * values + 4 * at, &cell[l * units], 4 * units)
                if self.precision == Precision.float32:
                    memcpy(host + 4 * at, &hidden[l * units], 4 * units)
                else:
                    for u in range(units):
                        (<uint16_t*> host)[at + u] = <uint16_t> to_bfloat16(hidden[l * units + u])
        with nogil:
            copy_to_device(self.work.address, host, width * values, self.stream)
            copy_to_device(self.work.address + self.cell_at, host + width * values, 4 * values, self.stream)
            self.stream.synchronize()  # the same memory takes the results
        return 0

    cdef int collect(self, members, list states, fused, list results, list bad) except -1:
        """Takes over all lanes: (take, lane) by member, in `bad` what is not finite; `fused`: uint32[lanes, 2]."""
        cdef uint32_t n = self.params.num_lanes, layers = self.params.network.num_layers, longest = 0, i, l
        cdef size_t width = value_bytes(self.precision), values = self.params.network.units, at
        cdef const unsigned char* control = <const unsigned char*> self.control_host.data
        cdef const unsigned char* work = <const unsigned char*> self.results_host.data
        cdef const LaneState* lanes = <const LaneState*> (control + self.layout.lanes)
        cdef bint good = True
        for i in range(n):
            longest = max(longest, lanes[i].count)
            good = good and lanes[i].outcome == LaneOutcome.decoded
        # Unlike arrays of numpy, bytes that are not filled yet take no time to make and none to write to.
        hidden, cell = room_for(n * layers * values * width), room_for(n * layers * values * 4)
        records = room_for(n * longest * sizeof(Record))
        cdef char* to = records
        for i in range(n):
            memcpy(to, work + self.keys_at + <size_t> i * self.room * sizeof(Record), longest * sizeof(Record))
            to += longest * sizeof(Record)
        cdef char* to_hidden = hidden
        cdef char* to_cell = cell
        for i in range(n):
            for l in range(layers):
                at = (<size_t> i * layers + l) * self.unit_stride
                memcpy(to_cell, work + self.cell_at + 4 * at, 4 * values)
                at += (lanes[i].steps % 2) * <size_t> n * layers * self.unit_stride
                memcpy(to_hidden, work + width * at, width * values)
                to_cell += 4 * values
                to_hidden += width * values
        found = Collected(
            np.frombuffer(control[self.layout.lanes:self.layout.lanes + n * sizeof(LaneState)], LANE),
            [(0, 0) if state is None else state[3:] for state in states],
            np.frombuffer(records, RECORD).reshape(n, longest),
            np.frombuffer(control[self.layout.contexts:self.layout.contexts + 4 * <size_t> n * self.params.network.context],
                          np.int32).reshape(n, self.params.network.context),
            np.frombuffer(hidden, np.float32 if width == 4 else np.uint16).reshape(n, layers * values),
            np.frombuffer(cell, np.float32).reshape(n, layers * values),
            self.params.network.durations > 0, self.params.confidence.statistic != Statistic.none, fused,
        )
        take, i = found.take, 0
        for member in members:
            results[member] = (take, i)
            i += 1
        if not good:
            found.add_to(bad, members)
        return 0


cdef bytes room_for(size_t bytes):
    return PyBytes_FromStringAndSize(NULL, <Py_ssize_t> bytes)


class Collected:
    """The results of a group: arrays of all lanes, and (skip, frames) of the states before."""

    def __init__(self, lanes, before, records, context, hidden, cell, with_durations, with_confidence, fused):
        self.fused = fused
        self.lanes, self.before, self.records = lanes, before, records
        self.context, self.hidden, self.cell = context, hidden, cell
        self.with_durations, self.with_confidence = with_durations, with_confidence

    def add_to(self, bad, members):
        """Adds what is not finite, in the form in which the engine reports it."""
        for i in np.flatnonzero(self.lanes["outcome"] != 0):
            lane = self.lanes[i]
            frame, feature = int(lane["bad_frame"]), int(lane["bad_feature"])
            known = (feature, lane["bad_value"]) if lane["outcome"] == BAD_INPUT else ()
            bad.append((int(members[i]), frame, *known))

    def take(self, i):
        """(tokens, frames, durations, log_probs, confidences, state) of a lane, all of them copies."""
        records = self.records[i, :self.lanes["count"][i]]
        skip, passed = self.before[i]
        here, end = int(self.lanes["frames"][i]), int(self.lanes["frame"][i])
        hidden = self.hidden[i]
        hidden = hidden.copy() if hidden.dtype == np.float32 else (hidden.astype(np.uint32) << 16).view(np.float32)
        return (
            records["token"].astype(np.int32),
            records["frame"].astype(np.int64) + passed,
            records["duration"][:None if self.with_durations else 0].astype(np.int32),
            records["log_prob"].copy(),
            records["confidence"][:None if self.with_confidence else 0].copy(),
            (hidden, self.cell[i].copy(), self.context[i].copy(), end - here + skip - min(skip, here),
             passed + here, (0, 0) if self.fused is None else tuple(self.fused[i].tolist())),
        )
