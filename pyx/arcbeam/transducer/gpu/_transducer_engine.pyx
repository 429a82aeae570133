"""The border to the transducer kernels: weights and addresses in, tokens out."""

import numpy as np

from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from arcbeam.core._interrupts cimport SLICE_MS, check_interrupts
from arcbeam.gpu._cuda cimport driver, ignore
from arcbeam.gpu._engine cimport BatchEngine
from arcbeam.gpu._launch cimport Event, Function, launch
from arcbeam.gpu._launch cimport load as load_module
from arcbeam.gpu._memory cimport DeviceBuffer, MemoryPool
from arcbeam.gpu._driver_table cimport LaunchShape
from arcbeam.transducer.gpu._network cimport (
    common_bytes, ConfidenceParams, DeviceMatrix, DeviceNetwork, fused_bytes, FusedLoopParams, joined_bytes, JointActivation, kept_bytes, kMostLayers,
    LoopParams, Precision, ProjectParams, staged_frames_bytes, Statistic, together_bytes,
)
from arcbeam.transducer.gpu._beam_group cimport BeamGroup
from arcbeam.transducer.gpu._beam_memory cimport shared_bytes as beam_bytes
from arcbeam.transducer.gpu._fusion cimport BeamFusionMemory, FusionMemory
from arcbeam.transducer.gpu._group cimport Group

from arcbeam.gpu.tuned import transducer_plan
from arcbeam.core.errors import CapacityError, CudaError, CudaOutOfMemoryError
from arcbeam.transducer.weights import padded

cdef enum:
    ROOM = 1  # arcbeam::transducer::Ending

cdef tuple NO_AUTOMATA = (None, None, (0, 0))  # of an utterance


cdef class CudaEngine(BatchEngine):
    """A transducer's `device_weights` on one device; layers=0: a stateless network. Calling threads take turns."""

    cdef Event done
    cdef Function project, kernel
    cdef LaunchShape shape
    cdef DeviceBuffer weights
    cdef Group group
    cdef FusionMemory fusion
    cdef bint fuses  # the batch that is being decoded
    cdef bint keeps_lattices  # of the batch
    cdef bint always_fuses  # with models of the decoder itself
    cdef bint merges  # hypotheses by context
    cdef uint32_t hypotheses  # of a beam search, 0 of a greedy one
    cdef uint32_t least_tests  # of an utterance in a round
    cdef LoopParams* params  # of the group
    cdef Precision precision
    cdef bint in_flight
    cdef object precision_name
    cdef dict kernels, fused_kernels, lattice_kernels  # all but the first are loaded when a batch first needs them

    def __init__(self, dict weights, int ordinal, *, str precision, uint32_t tokens, uint32_t units, uint32_t features,
                 uint32_t joint, uint32_t layers, uint32_t context, bint relu, str activation, uint32_t blank,
                 uint32_t max_symbols, durations, bint frame_looping, confidence, alphas, beam=None, lodr=None):
        if layers > kMostLayers:
            raise ValueError(f"layers: expected at most {kMostLayers} LSTM layers on a GPU, got {layers}; decode on the CPU")
        self.precision_name = precision
        self.precision = Precision.bfloat16 if precision == "bfloat16" else Precision.float32
        self.open(ordinal)
        self.pool = MemoryPool(self.context)
        self.done = Event(self.context)
        module = load_module(self.context, "transducer")
        self.project = module.function(f"arcbeam_transducer_project_{precision}")
        self.hypotheses = 0 if beam is None else beam.max_hypotheses
        if beam is not None:
            module = load_module(self.context, "transducer_beam")
        search = "" if beam is None else "beam_"
        self.kernels = {kernel: module.function(f"arcbeam_transducer_{kernel}_{search}{precision}")
                        for kernel in transducer_plan.KERNELS}
        self.weights = DeviceBuffer(self.pool, self.stream, "the weights")
        self.least_tests = max(self.hypotheses, <uint32_t> 1)
        if beam is None:
            self.group, self.fusion = Group(self.pool, self.stream, self.precision), FusionMemory(self.pool, self.stream, alphas)
        else:
            self.group = BeamGroup(self.pool, self.stream, self.precision, beam)
            self.fusion = BeamFusionMemory(self.pool, self.stream, alphas, beam, lodr)
            self.always_fuses = lodr is not None or beam.ilm_scale > 0
            self.merges = beam.merge_context is not None
            self.least_tests *= 2 if beam.ilm_scale > 0 else 1  # that of a history without an encoder
        self.fused_kernels, self.lattice_kernels = {}, {}
        self.params = &self.group.params
        memset(&self.shape, 0, sizeof(self.shape))
        cdef DeviceNetwork* network = &self.params.network
        network.tokens, network.units, network.features = tokens, units, features
        network.durations = len(durations)
        network.num_layers, network.context, network.relu = layers, context, relu
        network.activation = {"tanh": JointActivation.tanh, "relu": JointActivation.relu,
                              "sigmoid": JointActivation.sigmoid}[activation]
        self.params.blank, self.params.max_symbols = blank, max_symbols
        self.params.frame_looping = frame_looping
        self.params.patience = transducer_plan.PATIENCE_CYCLES
        if confidence is not None:
            self._set_confidence(&self.params.confidence, confidence)
        self._send_weights(weights, joint, np.array(durations or (0,), dtype=np.uint32))
        with self.context:
            for kernel in (self.project, *self.kernels.values()):
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
        with self.decoding_lock():
            fused = self.fusion.memory()
            found = {"weights": self.weights.capacity, "automata": fused["automata"], **self.group.memory()}
            found["batch"] += fused["rows"]
            found["pinned"] += fused["pinned"]
            return found

    def decode(self, utterances, list states, bint on_host, list fusions=None, bint lattice=False):
        """Decodes a batch: (found, bad); with `lattice` what is found has lattices, too (``Lists.lattice``)."""
        # utterances: address, row stride in values, frames, whether float16; device memory is read on the stream.
        # states: None or (hidden, cell, context, skip, frames).
        # found: (take, i); take(i) is (tokens, frames, durations, log_probs, confidences, state).
        # bad, values that are not finite: (utterance, frame, column, value), or (utterance, frame) of the network's.
        with self.decoding_lock():
            return self.decode_with_retry((utterances, states, on_host, fusions, lattice))

    # A batch

    cdef object attempt(self, tuple batch):
        fusions = batch[3]
        self.keeps_lattices = batch[4]
        if fusions is None and (self.always_fuses or self._has_contexts()):
            fusions = [NO_AUTOMATA] * len(batch[0])
        self._fuse(fusions is not None)
        return self._decode(batch[0], batch[1], batch[2], fusions)

    cdef bint shrink(self, error) except -1:
        """Half the lanes."""
        if not isinstance(error, CudaOutOfMemoryError):
            return False
        if transducer_plan.MOST_LANES >> self.halvings <= 1:
            self.halvings = 0
            return False
        self.halvings += 1
        return True

    cdef bint _has_contexts(self) noexcept:
        """Whether the batch needs the kernels that keep lattices and merge by context; they fuse, too."""
        return self.keeps_lattices or self.merges

    cdef int _fuse(self, bint fuses) except -1:
        self.fuses = fuses
        if self._has_contexts():
            if not self.lattice_kernels:
                self.lattice_kernels = self._loaded("transducer_beam_lattice", "lattice_beam_")
        elif fuses and not self.fused_kernels:
            search = "beam_" if self.hypotheses else ""
            self.fused_kernels = self._loaded(f"transducer_{search}fused", f"fused_{search}")
        return 0

    cdef dict _loaded(self, str name, str search):
        """Kernels of a module."""
        module = load_module(self.context, name)
        found = {kernel: module.function(f"arcbeam_transducer_{kernel}_{search}{self.precision_name}")
                 for kernel in transducer_plan.KERNELS}
        for kernel in found.values():
            (<Function> kernel).allow_shared(self.context.state.shared_per_block)
        return found

    cdef dict _kernels(self):
        """Those for the batch."""
        return self.lattice_kernels if self._has_contexts() else self.fused_kernels if self.fuses else self.kernels

    cdef _decode(self, const int64_t[:, ::1] utterances, list states, bint on_host, list fusions):
        cdef Py_ssize_t n = utterances.shape[0], i
        cdef int64_t frames = 0
        cdef bint longest_first = True
        lanes = min(max(1, transducer_plan.MOST_LANES >> self.halvings), self._most_lanes())
        results, bad = [None] * n, []
        for i in range(n):
            frames += utterances[i, 2]
            longest_first = longest_first and (i == 0 or utterances[i, 2] <= utterances[i - 1, 2])
        if n > 0 and longest_first and n <= lanes and (n == 1 or frames <= transducer_plan.MOST_FRAMES):
            self._decode_group(utterances, range(n), states, on_host, fusions, results, bad)
        else:
            table = np.asarray(utterances)
            order = np.argsort(-table[:, 2], kind="stable")
            for first, last in transducer_plan.groups(table[order, 2], lanes):
                members = order[first:last].tolist()
                self._decode_group(np.ascontiguousarray(table[members]), members, [states[i] for i in members], on_host,
                                   None if fusions is None else [fusions[i] for i in members], results, bad)
        return results, sorted(bad)

    cdef int _decode_group(self, const int64_t[:, ::1] utterances, members, list states, bint on_host, list fusions,
                           list results, list bad) except -1:
        fused = None
        try:
            self._start(utterances, states, on_host, fusions)
            self._finish()
            if self.fuses:
                fused = self.fusion.states()
        except BaseException:
            self._cancel()
            raise
        self.group.collect(members, states, fused, results, bad)
        return 0

    cdef uint32_t _most_lanes(self) except 0:
        """Lanes for which the shared memory of a block has room, in whichever shape is the first that fits."""
        cdef uint32_t lanes = transducer_plan.MOST_LANES
        while lanes > 0:
            for shape in self._shapes(lanes):
                if self._shared_bytes(shape, lanes) <= self.context.state.shared_per_block:
                    return lanes
            lanes //= 2
        raise self._no_room()

    cdef object _no_room(self):
        """The error for an utterance that does not fit: it says what the utterance needs, and what the device has."""
        cdef uint64_t most = self.context.state.shared_per_block, wanted
        cdef uint32_t blocks = transducer_plan.blocks(self.context.state.multiprocessors)
        device = f"cuda:{self.context.state.ordinal}"
        shapes = self._shapes(1)
        tried = []
        for shape in shapes:
            wanted = common_bytes(self.precision, 1, 1, self.params.network.context, shape.threads // 32)
            if wanted > most:
                return ValueError(f"context: expected fewer tokens than {self.params.network.context}, for which a block needs "
                                  f"{wanted:,} bytes of shared memory, of which {device} has {most:,}; decode on the CPU")
            needs = f"{shape.teams} blocks" if shape.teams > blocks else f"{self._shared_bytes(shape, 1):,} bytes"
            tried.append(f"{shape.kernel!r} of {shape.teams} teams, {shape.tests} tests needs {needs}")
        return CapacityError(f"no shape of a transducer launch fits {device}, which has {blocks} blocks with {most:,} bytes of "
                             f"shared memory each: {'; '.join(tried)}. Fewer teams need less, and the kernel 'many' needs "
                             "least; or decode on the CPU")

    cdef tuple _shapes(self, uint32_t lanes):
        """The shapes to try for so many utterances."""
        if self.hypotheses:
            return transducer_plan.beam_shapes(
                lanes, self.least_tests, self.precision_name, self.params.network.durations > 0)
        return transducer_plan.loop_shapes(lanes, self.precision_name, self.params.network.durations > 0)

    cdef uint64_t _shared_bytes(self, shape, uint32_t lanes) except? 0:
        cdef uint32_t blocks = transducer_plan.blocks(self.context.state.multiprocessors)
        cdef uint32_t tests = max(shape.tests, lanes * self.least_tests)
        if <uint32_t> shape.teams > blocks:
            return <uint64_t> -1 >> 1  # more than any block has
        cdef uint64_t bytes
        if self.hypotheses:
            bytes = beam_bytes(self.precision, shape.threads // 32)
        else:
            bytes = common_bytes(self.precision, lanes, tests, self.params.network.context, shape.threads // 32)
            if self.fuses:
                bytes += fused_bytes(lanes, tests)
        if shape.kernel == "many":
            bytes += together_bytes()
        else:
            bytes += kept_bytes(self.precision, self.params.network, blocks // <uint32_t> shape.teams)
            if shape.joins_alone:
                bytes += joined_bytes(self.precision, self.params.network, tests)
        return bytes

    cdef int _plan(self, uint32_t lanes) except -1:
        """Chooses the kernel and its launch, all of whose blocks must fit at the same time."""
        cdef uint64_t bytes
        for shape in self._shapes(lanes):
            bytes = self._shared_bytes(shape, lanes)
            self.kernel = self._kernels()[shape.kernel]
            if bytes > self.context.state.shared_per_block:
                continue
            if self.kernel.blocks_per_multiprocessor(shape.threads, bytes) < 1:
                continue
            self.shape.blocks = transducer_plan.blocks(self.context.state.multiprocessors)
            self.shape.threads, self.shape.shared_bytes = shape.threads, <uint32_t> bytes
            self.shape.cluster, self.shape.cooperative = 1, 1
            self.params.most_tests = max(shape.tests, lanes * self.least_tests)
            self.params.first_window = shape.first_window
            self.params.widest_window, self.params.teams = shape.widest_window, shape.teams
            self.params.joins_alone = shape.joins_alone
            return 0
        raise CudaError(f"no kernel of the transducer decoder fits a multiprocessor of cuda:{self.context.state.ordinal} "
                        f"({self.context.state.shared_per_block:,} bytes of shared memory a block)",
                        name="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", code=720, action="planning a launch")

    # A group of it

    cdef int _start(self, const int64_t[:, ::1] utterances, list states, bint on_host, list fusions) except -1:
        self._plan(<uint32_t> utterances.shape[0])
        if self.fuses:
            self.fusion.begin(fusions, self.params.network.tokens, self.params.most_tests)
        if self.hypotheses:
            (<BeamGroup> self.group).fusion = <BeamFusionMemory> self.fusion if self.fuses else None
            (<BeamGroup> self.group).keeps_lattices = self.keeps_lattices
            (<BeamGroup> self.group).has_contexts = self._has_contexts()
        self.group.begin(utterances, states, on_host)
        self._launch_project()
        self._launch()
        return 0

    cdef int _launch_project(self) except -1:
        cdef ProjectParams params
        cdef LaunchShape shape
        if self.group.num_groups == 0:
            return 0
        self.group.describe(&params)
        memset(&shape, 0, sizeof(shape))
        shape.blocks = transducer_plan.blocks(self.context.state.multiprocessors)
        shape.blocks *= <uint32_t> transducer_plan.PROJECT_BLOCKS[self.precision_name]
        shape.threads, shape.cluster = transducer_plan.PROJECT_THREADS, 1
        if self.precision == Precision.float32:
            shape.shared_bytes = <uint32_t> together_bytes()
        elif (self.group.num_groups >= transducer_plan.STAGED_GROUPS
              and staged_frames_bytes(params.network) <= self.context.state.shared_per_block):
            params.staged, shape.shared_bytes = 1, <uint32_t> staged_frames_bytes(params.network)
        launch(self.project, &shape, &params, self.stream)
        return 0

    cdef int _launch(self) except -1:
        cdef FusedLoopParams fused
        self.group.prepare()
        if self.fuses and self.hypotheses == 0:
            fused.loop, fused.fusion = self.params[0], self.fusion.params
            launch(self.kernel, &self.shape, &fused, self.stream)
        else:
            launch(self.kernel, &self.shape, self.group.launch_params(), self.stream)
        self.in_flight = True
        if self._fetches_at_once():
            self._fetch()
        self.done.record(self.stream)
        return 0

    cdef bint _fetches_at_once(self) noexcept nogil:
        return self.group.fetches_at_once() and (not self.fuses or self.fusion.fetches_at_once())

    cdef int _fetch(self) except -1 nogil:
        self.group.fetch()
        if self.fuses:
            self.fusion.fetch()
        return 0

    cdef int _finish(self) except -1:
        """Waits for the kernel, and launches it again with more room as long as a lane needs some."""
        cdef int reached
        while True:
            reached = 0
            while not reached:
                with nogil:
                    reached = self.done.wait(SLICE_MS)
                if not reached:
                    check_interrupts()
            self.in_flight = False
            if not self._fetches_at_once():
                with nogil:
                    self._fetch()
                    self.stream.synchronize()
            if self.group.status() != 0:
                raise CudaError(
                    f"the {self.shape.blocks} blocks of a transducer kernel on cuda:{self.context.state.ordinal} have not "
                    f"run at the same time, or were stopped for too long; the decoder can still be used",
                    name="CUDA_ERROR_LAUNCH_TIMEOUT", code=702, action="decoding transducers")
            if self.group.ending() != ROOM:
                return 0
            self.group.grow()
            if self.fuses:
                self.fusion.begin_again()
            self._launch()

    cdef int _cancel(self) except -1:
        """Makes the blocks stop after their round and waits for them, because the encoder output may go afterwards."""
        if self.in_flight:
            self.group.cancel_flag()[0] = 1
            # A copy engine does this: a kernel that writes the word might wait for a place on the device.
            ignore(self.context.state,
                   driver().copy_to_device(self.group.cancel_flag_address(), self.group.cancel_flag(), 4, self.copies.handle))
        self.in_flight = False
        with nogil:  # result codes are ignored: the first error says more
            ignore(self.context.state, driver().stream_synchronize(self.copies.handle))
            ignore(self.context.state, driver().stream_synchronize(self.stream.handle))
        return 0

    cdef int free(self) except -1:
        self.group.clear()
        self.fusion.clear()
        return 0

    cdef int free_pinned(self) except -1:
        self.group.release()
        self.fusion.release()
        return 0
