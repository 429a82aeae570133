"""The border to the transducer kernels: weights and addresses in, tokens out."""

import threading

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from arcbeam._cuda cimport Context, driver, ignore
from arcbeam._cuda_launch cimport Event, Function, Stream, launch
from arcbeam._cuda_launch cimport load as load_module
from arcbeam._cuda_memory cimport (
    DeviceBuffer, MemoryPool, PinnedBuffer, copy_on_device, copy_to_device, copy_to_host, set_bytes,
)
from arcbeam._driver_table cimport LaunchShape
from arcbeam._transducer_cuda cimport (
    common_bytes, ConfidenceParams, DeviceMatrix, DeviceNetwork, EncoderView, FrameGroup, JointActivation, kept_bytes,
    kKeyBuffers, kMostLayers, LaneState, LoopParams, padded16, Precision, ProjectParams, Record, staged_bytes, Statistic,
    to_bfloat16, value_bytes,
)

from arcbeam import _cuda, transducer_plan
from arcbeam._transducer import BadFrame
from arcbeam.errors import CudaError, CudaOutOfMemoryError
from arcbeam.transducer_weights import padded

cdef enum:
    SLICE_MS = 100  # of waiting between looks at signals
    FRAMES_OF_A_GROUP = 8  # FrameGroup::kFrames
    ARRIVED = 0  # words at the start of the control memory
    STATUS = 1
    ENDING = 2
    CANCELLED = 3
    CANCEL = 5
    WORD_BYTES = 32
    DONE = 0  # arcbeam::transducer::Ending
    ROOM = 1

# arcbeam::transducer::LaneState and Record
LANE = np.dtype([(name, np.uint32) for name in (
    "frame", "frames", "symbols", "window", "count", "steps", "outcome", "bad_frame", "bad_feature", "first_row", "fresh")]
    + [("bad_value", np.float32)])
RECORD = np.dtype([("token", np.uint32), ("frame", np.uint32), ("duration", np.uint32), ("log_prob", np.float32),
                   ("confidence", np.float32)])
BAD_INPUT, NOT_FINITE = 1, 2


cdef struct Layout:  # of a group's control memory, the same on both sides: words, lanes, contexts | views, bad, groups
    size_t lanes
    size_t contexts
    size_t returned  # bytes that come back: all before this
    size_t views
    size_t bad
    size_t groups
    size_t bytes


cdef class CudaEngine:
    """A transducer's weights on one device. Calls from several Python threads take turns.

    Parameters
    ----------
    weights : dict
        Of :func:`arcbeam.transducer_weights.device_weights`.
    ordinal : int
        The device's number.
    precision : str
    tokens, units, features, joint, layers, context, relu, activation
        Sizes and kinds of the network; joint: of the joint network's hidden layer; layers=0: a stateless one.
    blank, max_symbols, durations, confidence
        As for the CPU's engine.
    """

    cdef readonly Context context
    cdef readonly Stream stream
    cdef Stream copies
    cdef MemoryPool pool
    cdef Event done
    cdef Function project, kernel
    cdef LoopParams params
    cdef LaunchShape shape
    cdef Layout layout
    cdef DeviceBuffer weights, frames, projected, control, work, records
    cdef PinnedBuffer frames_host, control_host, results_host
    cdef Precision precision
    cdef size_t cell_at, predictions_at, joined_at, logits_at, keys_at, work_bytes
    cdef uint32_t joint_stride, unit_stride, outputs, room
    cdef int halvings  # of the groups, since memory was short
    cdef bint in_flight, with_durations, with_confidence
    cdef object turn, precision_name
    cdef dict kernels

    def __init__(self, dict weights, int ordinal, *, str precision, uint32_t tokens, uint32_t units, uint32_t features, uint32_t joint,
                 uint32_t layers, uint32_t context, bint relu, str activation, uint32_t blank, uint32_t max_symbols, durations,
                 confidence):
        if layers > kMostLayers:
            raise ValueError(f"layers: expected at most {kMostLayers} LSTM layers on a GPU, got {layers}; decode on the CPU")
        self.precision_name = precision
        self.precision = Precision.bfloat16 if precision == "bfloat16" else Precision.float32
        self.turn = threading.Lock()
        self.context = _cuda.context_of(ordinal)
        self.pool = MemoryPool(self.context)
        self.stream, self.copies = Stream(self.context), Stream(self.context)
        self.done = Event(self.context)
        module = load_module(self.context, "transducer")
        self.project = module.function(f"arcbeam_transducer_project_{precision}")
        self.kernels = {kernel: module.function(f"arcbeam_transducer_{kernel}_{precision}")
                        for kernel in transducer_plan.KERNELS}
        self.weights = DeviceBuffer(self.pool, self.stream, "the weights")
        self.frames = DeviceBuffer(self.pool, self.stream, "the encoder output")
        self.projected = DeviceBuffer(self.pool, self.stream, "the projected frames")
        self.control = DeviceBuffer(self.pool, self.stream, "the batch")
        self.work = DeviceBuffer(self.pool, self.stream, "the states of the batch")
        self.records = DeviceBuffer(self.pool, self.stream, "the hypotheses")
        self.frames_host, self.control_host = PinnedBuffer(self.context), PinnedBuffer(self.context)
        self.results_host = PinnedBuffer(self.context)
        memset(&self.params, 0, sizeof(self.params))
        memset(&self.shape, 0, sizeof(self.shape))
        cdef DeviceNetwork* network = &self.params.network
        network.tokens, network.units, network.features = tokens, units, features
        network.durations = len(durations)
        network.num_layers, network.context, network.relu = layers, context, relu
        network.activation = {"tanh": JointActivation.tanh, "relu": JointActivation.relu,
                              "sigmoid": JointActivation.sigmoid}[activation]
        self.params.blank, self.params.max_symbols = blank, max_symbols
        self.params.patience = transducer_plan.PATIENCE_CYCLES
        self.with_durations, self.with_confidence = len(durations) > 0, confidence is not None
        if confidence is not None:
            self._set_confidence(&self.params.confidence, confidence)
        self._send_weights(weights, joint, np.array(durations or (0,), dtype=np.uint32))
        self.outputs = network.output.rows
        self.joint_stride, self.unit_stride = network.output.stride, network.prediction.stride
        with self.context:
            for kernel in self.kernels.values():
                (<Function> kernel).allow_shared(self.context.state.shared_per_block)

    cdef int _set_confidence(self, ConfidenceParams* into, measure) except -1:
        into.statistic = {"largest": Statistic.largest, "weighted": Statistic.weighted, "power": Statistic.power,
                          "log power": Statistic.log_power}[measure.statistic]
        into.exponential = measure.exponential
        into.alpha, into.factor, into.offset = measure.alpha, measure.factor, measure.offset
        into.scale, into.shift = measure.scale, measure.shift
        return 0

    cdef int _send_weights(self, dict weights, uint32_t joint, lengths) except -1:
        cdef DeviceNetwork* network = &self.params.network
        cdef uint32_t gates = 4 * network.units
        cdef uint64_t start
        at, places = 0, {}
        arrays = {name: array for name, array in weights.items() if array is not None}
        arrays["lengths"] = lengths
        for name, array in arrays.items():
            places[name] = at
            at += padded(array.nbytes, 256)
        self.weights.resize(at)
        start = self.weights.address
        for name, array in arrays.items():
            if array.nbytes:
                self.weights.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8), places[name])
        addresses = {name: start + place for name, place in places.items()}
        self._describe(&network.encoder, weights, addresses, "encoder", joint)
        self._describe(&network.prediction, weights, addresses, "prediction", joint)
        self._describe(&network.output, weights, addresses, "output", network.tokens + network.durations)
        for i in range(network.num_layers):
            self._describe(&network.layers[i].recurrent, weights, addresses, f"recurrent_l{i}", gates)
            if i:
                self._describe(&network.layers[i].input, weights, addresses, f"input_l{i}", gates)
        network.tables = <const float*> <uintptr_t> addresses["tables"]
        network.convolution_bias = <const float*> <uintptr_t> addresses.get("convolution_bias", 0)
        self.params.lengths = <const uint32_t*> <uintptr_t> addresses["lengths"]
        return 0

    cdef int _describe(self, DeviceMatrix* matrix, dict weights, dict addresses, str name, uint32_t rows) except -1:
        matrix.values = <const void*> <uintptr_t> addresses[name]
        matrix.bias = <const float*> <uintptr_t> addresses.get(f"{name}_bias", 0)
        matrix.rows, matrix.stride = rows, weights[name].shape[1]
        return 0

    def memory(self):
        """dict : bytes on the device by purpose, and ``pinned`` ones of the host."""
        with self.turn:
            return {"weights": self.weights.capacity, "encoder_output": self.frames.capacity,
                    "projected": self.projected.capacity, "hypotheses": self.records.capacity,
                    "batch": self.control.capacity + self.work.capacity,
                    "pinned": self.frames_host.capacity + self.control_host.capacity + self.results_host.capacity}

    def decode(self, const int64_t[:, ::1] utterances, list states, bint on_host):
        """Decodes a batch.

        Parameters
        ----------
        utterances : int64[batch, 4]
            Address, row stride in values, frames, and whether the values are float16. The memory must stay.
        states : list of None or (hidden, cell, context, skip, frames)
        on_host : bool
            Whether the addresses are the host's; else the engine's stream must have been told to wait for them.

        Returns
        -------
        list of (tokens, frames, durations, log_probs, confidences, state)
        """
        with self.turn:
            while True:
                try:
                    with self.context:
                        found = self._decode(utterances, states, on_host)
                    self.halvings = max(0, self.halvings - 1)
                    return found
                except BadFrame:
                    raise
                except CudaOutOfMemoryError:
                    self._give_back()
                    if transducer_plan.MOST_LANES >> self.halvings <= 1:
                        self.halvings = 0
                        raise
                    self.halvings += 1
                except BaseException:
                    self._give_back()
                    raise

    # A batch

    cdef _decode(self, const int64_t[:, ::1] utterances, list states, bint on_host):
        table = np.asarray(utterances)
        order = np.argsort(-table[:, 2], kind="stable")  # the longest first
        lanes = min(max(1, transducer_plan.MOST_LANES >> self.halvings), self._most_lanes())
        results, bad = [None] * len(table), []
        for first, last in transducer_plan.groups(table[order, 2], lanes):
            members = order[first:last]
            try:
                self._start(np.ascontiguousarray(table[members]), [states[i] for i in members], on_host)
                self._finish()
            except BaseException:
                self._cancel()
                raise
            self._collect(members, table[members, 2], states, results, bad)
        if bad:
            raise BadFrame(*min(bad))
        return results

    cdef uint32_t _most_lanes(self) except 0:
        """Lanes for which the shared memory of a block has room, in whichever shape is the first that fits."""
        cdef uint32_t lanes = transducer_plan.MOST_LANES
        while lanes > 0:
            for shape in transducer_plan.loop_shapes(lanes, self.precision_name):
                if self._shared_bytes(shape, lanes) <= self.context.state.shared_per_block:
                    return lanes
            lanes //= 2
        raise ValueError(f"context: expected fewer tokens than {self.params.network.context}, for which the shared memory "
                         f"of cuda:{self.context.state.ordinal} has no room; decode on the CPU")

    cdef uint64_t _shared_bytes(self, shape, uint32_t lanes) except? 0:
        cdef uint32_t blocks = transducer_plan.blocks(self.context.state.multiprocessors)
        cdef uint32_t tests = max(shape.tests, lanes)
        cdef uint64_t bytes = common_bytes(self.precision, lanes, tests, self.params.network.context, shape.threads // 32)
        if shape.kernel != "many":
            bytes += kept_bytes(self.precision, self.params.network, blocks)
        if shape.kernel == "few":
            bytes += staged_bytes(self.precision, self.params.network, lanes, tests)
        return bytes

    cdef int _plan(self, uint32_t lanes) except -1:
        """Chooses the kernel and its launch, all of whose blocks must fit at the same time."""
        cdef uint64_t bytes
        for shape in transducer_plan.loop_shapes(lanes, self.precision_name):
            bytes = self._shared_bytes(shape, lanes)
            self.kernel = self.kernels[shape.kernel]
            if bytes > self.context.state.shared_per_block:
                continue
            if self.kernel.blocks_per_multiprocessor(shape.threads, bytes) < 1:
                continue
            self.shape.blocks = transducer_plan.blocks(self.context.state.multiprocessors)
            self.shape.threads, self.shape.shared_bytes = shape.threads, <uint32_t> bytes
            self.shape.cluster, self.shape.cooperative = 1, 1
            self.params.most_tests, self.params.first_window = max(shape.tests, lanes), shape.first_window
            self.params.widest_window = shape.widest_window
            return 0
        raise CudaError(f"no kernel of the transducer decoder fits a multiprocessor of cuda:{self.context.state.ordinal} "
                        f"({self.context.state.shared_per_block:,} bytes of shared memory a block)",
                        name="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", code=720, action="planning a launch")

    # A group of it

    cdef int _start(self, const int64_t[:, ::1] utterances, list states, bint on_host) except -1:
        cdef uint32_t n = <uint32_t> utterances.shape[0], layers = self.params.network.num_layers
        cdef uint32_t hidden_layers = max(layers, <uint32_t> 1)
        cdef uint64_t rows = 0, num_groups = 0
        cdef uint32_t longest = <uint32_t> utterances[0, 2]
        cdef Py_ssize_t i
        cdef size_t at = 0, values = <size_t> n * hidden_layers * self.unit_stride
        for i in range(n):
            rows += <uint64_t> utterances[i, 2]
            num_groups += (<uint64_t> utterances[i, 2] + FRAMES_OF_A_GROUP - 1) // FRAMES_OF_A_GROUP
        self._plan(n)
        self.params.num_lanes = n
        self.cell_at = 2 * value_bytes(self.precision) * values
        self.predictions_at = self.cell_at + 4 * values
        self.joined_at = self.predictions_at + 4 * <size_t> n * self.joint_stride
        at = 4 * <size_t> self.params.most_tests
        self.keys_at = self.joined_at + (0 if self.kernel is self.kernels["few"] else at * self.joint_stride)
        self.logits_at = self.keys_at + 2 * kKeyBuffers * 2 * at
        self.work.reserve(self.logits_at + at * self.outputs, False)
        self.projected.reserve(4 * max(rows, <uint64_t> 1) * self.joint_stride, False)
        self.room = transducer_plan.first_room(longest)
        self.records.reserve(<size_t> n * self.room * sizeof(Record), False)
        set_bytes(self.work.address, 0, self.predictions_at, self.stream)
        self._fill_control(utterances, states, num_groups, self._send_frames(utterances) if on_host else 0)
        self._send_states(states, values)
        copy_to_device(self.control.address, self.control_host.data, self.layout.bytes, self.stream)
        self._launch_project(<uint32_t> num_groups)
        self.params.resumed = 0
        self._launch()
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

    cdef int _fill_control(self, const int64_t[:, ::1] utterances, list states, uint64_t num_groups,
                           uint64_t sent) except -1:
        """Lanes, views and frame groups; `sent`: where the frames were sent to, 0 if they are there."""
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
        layout.bytes = padded16(layout.groups + num_groups * sizeof(FrameGroup) + 16)
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
            for frame in range(0, lane.frames, FRAMES_OF_A_GROUP):
                group.utterance, group.first_frame = <uint32_t> i, frame
                group += 1
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
        """What the lanes go on from: of a stateless network the last tokens, at first the blank alone."""
        cdef uint32_t places = self.params.network.context, k
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
            lane = <LaneState*> (host + self.layout.lanes) + <Py_ssize_t> i
            lane.frame = <uint32_t> min(skip, lane.frames)
        return 0

    cdef int _send_states(self, list states, size_t values) except -1:
        """Hidden states and cells of lanes that go on."""
        cdef unsigned char* host
        cdef const float[::1] hidden, cell
        cdef size_t units = self.params.network.units, layers = self.params.network.num_layers, l, u
        cdef size_t stride = self.unit_stride, width = value_bytes(self.precision), at
        if layers == 0 or all(state is None for state in states):
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
        copy_to_device(self.work.address, host, width * values, self.stream)
        copy_to_device(self.work.address + self.cell_at, host + width * values, 4 * values, self.stream)
        self.stream.synchronize()  # the same pinned memory takes the results
        return 0

    cdef int _launch_project(self, uint32_t num_groups) except -1:
        cdef ProjectParams params
        cdef LaunchShape shape
        if num_groups == 0:
            return 0
        memset(&params, 0, sizeof(params))
        memset(&shape, 0, sizeof(shape))
        params.network = self.params.network
        params.utterances = <const EncoderView*> <uintptr_t> (self.control.address + self.layout.views)
        params.groups = <const FrameGroup*> <uintptr_t> (self.control.address + self.layout.groups)
        params.projected = <float*> <uintptr_t> self.projected.address
        params.bad_inputs = <uint64_t*> <uintptr_t> (self.control.address + self.layout.bad)
        params.num_groups = num_groups
        shape.blocks = transducer_plan.blocks(self.context.state.multiprocessors)
        shape.threads, shape.cluster = transducer_plan.PROJECT_THREADS, 1
        launch(self.project, &shape, &params, self.stream)
        return 0

    cdef int _launch(self) except -1:
        cdef size_t record_bytes = <size_t> self.params.num_lanes * self.room * sizeof(Record)
        self.params.records = <Record*> <uintptr_t> self.records.address
        self.params.room = self.room
        self.results_host.reserve(self.predictions_at + record_bytes)
        set_bytes(self.work.address + self.keys_at, 0, self.logits_at - self.keys_at, self.stream)
        launch(self.kernel, &self.shape, &self.params, self.stream)
        self.in_flight = True
        copy_to_host(self.control_host.data, self.control.address, self.layout.returned, self.stream)
        copy_to_host(self.results_host.data, self.work.address, self.predictions_at, self.stream)
        copy_to_host(<unsigned char*> self.results_host.data + self.predictions_at, self.records.address, record_bytes,
                     self.stream)
        self.done.record(self.stream)
        return 0

    cdef int _finish(self) except -1:
        """Waits for the kernel, and launches it again with more room as long as a lane needs some."""
        cdef uint32_t* words
        cdef int reached
        while True:
            reached = 0
            while not reached:
                with nogil:
                    reached = self.done.wait(SLICE_MS)
                if not reached:
                    PyErr_CheckSignals()
            self.in_flight = False
            words = <uint32_t*> self.control_host.data
            if words[STATUS] != 0:
                raise CudaError(
                    f"the {self.shape.blocks} blocks of a transducer kernel on cuda:{self.context.state.ordinal} have not "
                    f"run at the same time, or were stopped for too long; the decoder can still be used",
                    name="CUDA_ERROR_LAUNCH_TIMEOUT", code=702, action="decoding transducers")
            if words[ENDING] != ROOM:
                return 0
            self._grow()
            set_bytes(self.control.address, 0, WORD_BYTES, self.stream)
            self.params.resumed = 1
            self._launch()

    cdef int _grow(self) except -1:
        """Doubles the hypotheses' room, for all lanes."""
        cdef uint32_t room = 2 * self.room, i
        cdef size_t old = self.room * sizeof(Record), new = room * sizeof(Record)
        cdef DeviceBuffer larger = DeviceBuffer(self.pool, self.stream, "the hypotheses")
        larger.reserve(self.params.num_lanes * new, False)
        for i in range(self.params.num_lanes):
            copy_on_device(larger.address + i * new, self.records.address + i * old, old, self.stream)
        self.records.clear()
        self.records, self.room = larger, room
        return 0

    cdef int _cancel(self) except -1:
        """Lets the blocks stop after their round and waits for them, for the encoder output may go afterwards."""
        cdef uint32_t* wish = <uint32_t*> self.control_host.data + CANCEL
        if self.in_flight:
            wish[0] = 1
            # By the copy engine: a kernel that writes the word might wait for a place beside ours.
            ignore(self.context.state,
                   driver().copy_to_device(self.control.address + 4 * CANCEL, wish, 4, self.copies.handle))
        self.in_flight = False
        with nogil:  # what these answer changes nothing: what led here says more
            ignore(self.context.state, driver().stream_synchronize(self.copies.handle))
            ignore(self.context.state, driver().stream_synchronize(self.stream.handle))
        return 0

    cdef int _give_back(self) except -1:
        """Frees what grows, after a failure."""
        cdef DeviceBuffer buffer
        if self.context.enter_to_free():
            for buffer in (self.frames, self.projected, self.control, self.work, self.records):
                buffer.clear()
            # What is freed returns to the pool when the stream comes to it, and by trimming to everyone.
            ignore(self.context.state, driver().stream_synchronize(self.stream.handle))
            ignore(self.context.state, driver().pool_trim(self.pool.handle, 0))
            self.context.leave()
        return 0

    cdef int _collect(self, members, frames, list states, list results, list bad) except -1:
        """Takes results over, for all lanes at a time: what an utterance gets are views of these arrays."""
        cdef Py_ssize_t n = len(members)
        layers, units = self.params.network.num_layers, self.params.network.units
        hidden_layers = max(layers, 1)
        lanes = np.frombuffer(self.control_host, LANE, n, self.layout.lanes).copy()
        context = np.frombuffer(self.control_host, np.int32, n * self.params.network.context, self.layout.contexts)
        context = context.reshape(n, -1).copy()
        shape = (n, hidden_layers, self.unit_stride)
        lane = np.arange(n)
        width = value_bytes(self.precision)
        both = np.frombuffer(self.results_host, np.float32 if width == 4 else np.uint16, self.cell_at // width)
        hidden = both.reshape(2, *shape)[lanes["steps"] % 2, lane, :layers, :units].reshape(n, -1)
        if width == 2:
            hidden = (hidden.astype(np.uint32) << 16).view(np.float32)
        cell = np.frombuffer(self.results_host, np.float32, n * hidden_layers * self.unit_stride, self.cell_at)
        cell = cell.reshape(shape)[:, :layers, :units].reshape(n, -1).copy()
        counts = lanes["count"].astype(np.int64)
        records = np.frombuffer(self.results_host, RECORD, n * self.room, self.predictions_at).reshape(n, -1)
        records = records[:, :counts.max()].copy()
        before = [(0, 0) if states[i] is None else states[i][3:] for i in members]
        skipped = [skip - min(skip, here) for (skip, _), here in zip(before, frames.tolist())]
        passed = [frames_before for _, frames_before in before]
        tokens, durations = records["token"].astype(np.int32), records["duration"].astype(np.int32)
        places = records["frame"].astype(np.int64) + np.array(passed, dtype=np.int64)[:, None]
        log_probs, confidences = records["log_prob"].copy(), records["confidence"].copy()
        outcomes, ends = lanes["outcome"], lanes["frame"].tolist()
        for i in np.flatnonzero(outcomes == BAD_INPUT):
            frame, feature = int(lanes["bad_frame"][i]), int(lanes["bad_feature"][i])
            bad.append((int(members[i]), frame, feature, lanes["bad_value"][i]))
        for i in np.flatnonzero(outcomes == NOT_FINITE):
            bad.append((int(members[i]), int(lanes["bad_frame"][i])))
        for i, (member, count, here) in enumerate(zip(members.tolist(), counts.tolist(), frames.tolist())):
            results[member] = (
                tokens[i, :count],
                places[i, :count],
                durations[i, :count if self.with_durations else 0],
                log_probs[i, :count],
                confidences[i, :count if self.with_confidence else 0],
                (hidden[i], cell[i], context[i], ends[i] - here + skipped[i], passed[i] + here),
            )
        return 0
