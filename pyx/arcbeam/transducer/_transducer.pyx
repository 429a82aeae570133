"""The border to the transducer's CPU engine: weights and addresses in, tokens out."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memset
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arcbeam.core._confidence cimport Confidence, confidence_of
from arcbeam.core._pooled_engine cimport AnyEngine, PooledEngine
from arcbeam.arrays._vectors cimport into_vector
from arcbeam.transducer.beam._lists cimport copied, Labels, labels_of, Lattice, Lists, NBest
from arcbeam.transducer.beam._state cimport BeamState, CppBeamState, FusionStates
from arcbeam.transducer._token_automaton cimport TokenAutomaton, automaton_of


cdef extern from "shared/transducer_math.hpp" namespace "arcbeam::transducer" nogil:
    float exp_of(float)
    float log_of(float)
    float tanh_of(float)
    float sigmoid_of(float)


cdef extern from "shared/transducer_bfloat16.hpp" namespace "arcbeam::transducer" nogil:
    float round_to_bfloat16(float)


cdef extern from "transducer/kernels.hpp" namespace "arcbeam::transducer" nogil:
    cdef enum class Activation(uint8_t):
        kTanh
        kRelu
        kSigmoid

    cdef cppclass Kernels:
        const char* name
        void (*lstm)(const float*, const float*, size_t, float*, float*)
        void (*join)(const float*, const float*, Activation, size_t, float*)
        void (*round)(float*, size_t)
        float (*exp_sum)(const float*, size_t, float)

    const vector[const Kernels*]& cpp_available_kernels "arcbeam::transducer::available_kernels"()


cdef extern from "transducer/network.hpp" namespace "arcbeam::transducer" nogil:
    cdef struct Weights:
        const float* values
        const float* bias
        size_t outputs
        size_t inputs

    cdef struct LstmWeights:
        const float* input
        const float* recurrent
        const float* input_bias
        const float* recurrent_bias

    cdef cppclass NetworkWeights:
        const float* embedding
        size_t tokens
        size_t embedding_size
        vector[LstmWeights] layers
        size_t units
        const float* convolution
        const float* convolution_bias
        size_t groups
        size_t context
        cbool relu
        Weights encoder
        Weights prediction
        Weights output
        Activation activation
        cbool rounds

    cdef cppclass Matrix:
        void pack(const Weights&) except +
        size_t room_for_inputs()
        size_t room_for_outputs()

    cdef cppclass CppNetwork "arcbeam::transducer::Network":
        CppNetwork(const NetworkWeights&, const Kernels&) except +
        size_t bytes()

    void multiply_rows(const Kernels&, const Matrix&, const float*, size_t, size_t, float*, size_t)


cdef extern from "transducer/fusion.hpp" namespace "arcbeam::transducer" nogil:
    cdef struct FusionModel:
        TokenAutomaton automaton
        float alpha

    cdef cppclass Fusion:
        FusionModel models[3]


cdef extern from "transducer/frames.hpp" namespace "arcbeam::transducer" nogil:
    cdef struct EncoderOutput:
        const void* data
        int64_t row_stride
        uint32_t frames
        cbool is_half

    cdef struct BadValue:
        uint32_t frame
        uint32_t column


cdef extern from "transducer/search.hpp" namespace "arcbeam::transducer" nogil:
    cdef cppclass StreamState:
        vector[float] hidden
        vector[float] cell
        vector[int32_t] context
        int64_t skip
        int64_t frames
        FusionStates fusion

    cdef cppclass Utterance:
        EncoderOutput input
        const StreamState* start "from"
        const CppBeamState* beam_from
        Fusion fusion
        FusionStates fusion_start
        cbool keeps_lattice

    cdef struct BeamOptions:
        float beam
        uint32_t max_hypotheses
        cbool sums
        float length_power
        float ilm_scale
        uint32_t settle_frames
        uint32_t merge_context

    cdef cppclass Options:
        uint32_t blank
        uint32_t max_symbols
        vector[uint32_t] durations
        cbool frame_looping
        Confidence confidence
        BeamOptions beam

    cdef enum class Outcome(uint8_t):
        kDecoded
        kBadInput
        kNotFinite
        kOutOfMemory
        kCancelled

    cdef struct Work:
        int64_t frames
        int64_t live
        int64_t runs
        int64_t rows

    cdef cppclass Result(Labels):
        StreamState state
        NBest nbest
        size_t settled
        CppBeamState beam_state
        Lattice lattice
        Work work
        Outcome outcome
        BadValue bad


cdef extern from "transducer/engine.hpp" namespace "arcbeam::transducer" nogil:
    cdef cppclass Engine(AnyEngine):
        Engine(const CppNetwork&, const Options&, size_t threads) except +
        void start(vector[Utterance]) except +
        vector[Result]& results()


cdef const Kernels* kernels_named(name) except NULL:
    cdef const Kernels* found
    for i in range(cpp_available_kernels().size()):
        found = cpp_available_kernels()[i]
        if name is None or found.name.decode() == name:
            return found
    raise ValueError(f"kernels: expected one of {', '.join(available_kernels())}, got {name!r}")


def available_kernels():
    """Names of the vector units this machine can use, the fastest first."""
    return [cpp_available_kernels()[i].name.decode() for i in range(cpp_available_kernels().size())]


cdef const float* floats_of(array, list keep) except? NULL:
    """Address of a contiguous float32 array, NULL for None or an empty one; `keep` holds it."""
    if array is None or array.size == 0:
        return NULL
    cdef const float[::1] view = array.reshape(-1)
    keep.append(view)
    return &view[0]


cdef Weights weights_of(weight, bias, list keep) except *:
    return Weights(floats_of(weight, keep), floats_of(bias, keep), weight.shape[0], weight.shape[1])


cdef class Network:
    """The weights of a transducer, packed for this machine's vector unit."""

    cdef unique_ptr[CppNetwork] network
    cdef readonly str kernels

    def __cinit__(self, dict arrays, *, str activation, bint relu, size_t groups, size_t units, size_t context,
                  bint rounds=False, kernels=None):
        cdef NetworkWeights weights
        cdef LstmWeights layer
        cdef const Kernels* with_kernels = kernels_named(kernels)
        keep = []
        embedding = arrays["embedding"]
        weights.embedding = floats_of(embedding, keep)
        *_, tokens, size = embedding.shape
        weights.tokens, weights.embedding_size = tokens, size
        for name in range(arrays["layers"]):
            layer.input = floats_of(arrays[f"weight_ih_l{name}"], keep)
            layer.recurrent = floats_of(arrays[f"weight_hh_l{name}"], keep)
            layer.input_bias = floats_of(arrays.get(f"bias_ih_l{name}"), keep)
            layer.recurrent_bias = floats_of(arrays.get(f"bias_hh_l{name}"), keep)
            weights.layers.push_back(layer)
        weights.units = units
        weights.convolution = floats_of(arrays.get("convolution"), keep)
        weights.convolution_bias = floats_of(arrays.get("convolution_bias"), keep)
        weights.groups, weights.context, weights.relu = groups, context, relu
        weights.encoder = weights_of(arrays["encoder_weight"], arrays.get("encoder_bias"), keep)
        weights.prediction = weights_of(arrays["prediction_weight"], arrays.get("prediction_bias"), keep)
        weights.output = weights_of(arrays["output_weight"], arrays.get("output_bias"), keep)
        weights.activation = {"tanh": Activation.kTanh, "relu": Activation.kRelu,
                              "sigmoid": Activation.kSigmoid}[activation]
        weights.rounds = rounds
        with nogil:
            self.network.reset(new CppNetwork(weights, with_kernels[0]))
        self.kernels = with_kernels.name.decode()

    @property
    def nbytes(self):
        """Bytes of the packed weights and tables."""
        return self.network.get().bytes()


cdef class CpuEngine(PooledEngine):
    """A pool of threads over one network. Calls from several Python threads take turns."""

    cdef Engine* engine
    cdef Network network
    cdef Options options
    cdef float[3] alphas  # of the n-gram model, the boosting tree and the second n-gram model
    cdef object lodr

    def __cinit__(self, Network network, *, uint32_t blank, uint32_t max_symbols, durations, bint frame_looping,
                  confidence, size_t threads, alphas=(0.0, 0.0), beam=None, lodr=None):
        self.network = network
        self.alphas = *alphas, 0.0 if beam is None else beam.lodr_scale
        self.lodr = lodr
        self.options.blank = blank
        self.options.max_symbols = max_symbols
        into_vector[uint32_t](self.options.durations, np.array(durations, np.uint32))
        self.options.frame_looping = frame_looping
        if confidence is not None:
            self.options.confidence = confidence_of(confidence)
        if beam is not None:
            self.options.beam = BeamOptions(beam.beam, beam.max_hypotheses, beam.merge == "sum", beam.length_power,
                                            beam.ilm_scale, beam.settle_frames or 0, beam.merge_context or 0)
        self.threads = threads
        self.ready()

    cdef AnyEngine* new_pool(self) except NULL:
        self.engine = new Engine(self.network.network.get()[0], self.options, self.threads)
        return self.engine

    def __dealloc__(self):
        self.close()

    def work(self):
        """list of dict : what beam search took for each utterance of the last batch, as ``search.hpp`` says."""
        with self.decoding_lock():
            return [self.engine.results()[i].work for i in range(self.engine.results().size())]

    def memory(self):
        """dict : bytes of the packed weights and tables."""
        return {"weights": self.network.nbytes}

    def decode(self, const int64_t[:, ::1] utterances, list states, bint on_host=True, list fusions=None,
               bint lattice=False):
        """Decodes a batch: (found, bad), as `CudaEngine.decode` does.

        With a beam what is found are n-best lists and, of an utterance with a `BeamState`, what it leaves to the next
        chunk: (state, labels of each entry that no later frame changes, states of the n-gram model, the tree and LODR
        after the best entry); else None. With `lattice` each has a lattice, too, which `Lists.lattice` returns.
        """
        with self.decoding_lock():
            self.ready()
            return self._decode(utterances, states, fusions, lattice)

    cdef _decode(self, const int64_t[:, ::1] utterances, list states, list fusions, bint lattice):
        cdef vector[StreamState] before
        cdef vector[Utterance] batch
        cdef StreamState state
        cdef Utterance utterance
        cdef Py_ssize_t i
        before.reserve(utterances.shape[0])
        for i in range(utterances.shape[0]):
            utterance.beam_from = NULL
            if isinstance(states[i], BeamState):
                utterance.beam_from = &(<BeamState> states[i]).of
            elif states[i] is not None:
                hidden, cell, context, state.skip, state.frames = states[i]
                into_vector[float](state.hidden, hidden)
                into_vector[float](state.cell, cell)
                into_vector[int32_t](state.context, np.array(context, np.int32))
            if fusions is not None:
                self._set_fusion(&utterance, &state, fusions[i])
            if self.lodr is not None:
                utterance.fusion.models[2].automaton = automaton_of(self.lodr)
                utterance.fusion.models[2].alpha = self.alphas[2]
                utterance.fusion_start.of[2] = self.lodr.start
            before.push_back(state)
            utterance.start = &before[i] if states[i] is not None else NULL  # which a beam does not read
            utterance.keeps_lattice = lattice
            utterance.input = EncoderOutput(<const void*> <uintptr_t> utterances[i, 0], utterances[i, 1],
                                            <uint32_t> utterances[i, 2], utterances[i, 3] != 0)
            batch.push_back(utterance)
        self.engine.start(move(batch))
        self.finish()
        bad = self._bad()
        cdef Lists lists = Lists()
        if self.options.beam.beam > 0:
            for i in range(self.engine.results().size()):
                lists.of.push_back(move(self.engine.results()[i].nbest))
                if lattice:
                    lists.lattices.push_back(move(self.engine.results()[i].lattice))
            return [(lists.take, i, self._left(i, states[i])) for i in range(lists.of.size())], bad
        found = [self._result(i) for i in range(self.engine.results().size())]
        return [(found.__getitem__, i) for i in range(len(found))], bad

    cdef _left(self, size_t i, before):
        """What a chunk leaves to those after it, as `decode` says."""
        cdef Result* result = &self.engine.results()[i]
        cdef BeamState after
        if before is None:
            return None
        if result.outcome != Outcome.kDecoded:
            return before, 0, (0, 0, 0)
        after = BeamState()
        after.of = move(result.beam_state)
        models = result.state.fusion
        return after, result.settled, (models.of[0], models.of[1], models.of[2])

    cdef int _set_fusion(self, Utterance* utterance, StreamState* state, fusion) except -1:
        cdef TokenAutomaton none
        memset(&none, 0, sizeof(none))
        for i, automaton in enumerate(fusion[:2]):
            utterance.fusion.models[i].automaton = none if automaton is None else automaton_of(automaton)
            utterance.fusion.models[i].alpha = self.alphas[i]
            utterance.fusion_start.of[i] = state.fusion.of[i] = fusion.states[i]
        return 0

    cdef list _bad(self):
        """Where values are not finite; an error is raised for an utterance that ran out of room."""
        cdef const Result* result
        bad = []
        for i in range(self.engine.results().size()):
            result = &self.engine.results()[i]
            if result.outcome == Outcome.kBadInput:
                bad.append((i, result.bad.frame, result.bad.column))
            if result.outcome == Outcome.kNotFinite:
                bad.append((i, result.bad.frame))
            if result.outcome == Outcome.kOutOfMemory:
                raise MemoryError(f"out of memory while decoding utterance {i}: decode fewer or shorter ones at a time")
        return bad

    def _result(self, size_t i):
        """The labels of an utterance, and the state after them."""
        cdef const Result* result = &self.engine.results()[i]
        return (
            *labels_of(result[0]),
            (
                copied(result.state.hidden.data(), result.state.hidden.size(), np.float32),
                copied(result.state.cell.data(), result.state.cell.size(), np.float32),
                copied(result.state.context.data(), result.state.context.size(), np.int32),
                result.state.skip,
                result.state.frames,
                (result.state.fusion.of[0], result.state.fusion.of[1]),
            ),
        )


def apply(str function, const float[::1] x, kernels=None):
    """Applies a function of the shared headers; `kernels` names the vector unit (not for exp and log)."""
    y = np.empty(x.shape[0], dtype=np.float32)
    cdef float[::1] into = y
    cdef float[::1] zeros = np.zeros(x.shape[0], dtype=np.float32)
    cdef const Kernels* unit
    if kernels is not None and x.shape[0] > 0:
        unit = kernels_named(kernels)
        if function == "bfloat16":
            into[:] = x
            unit.round(&into[0], x.shape[0])
            return y
        unit.join(&x[0], &zeros[0], Activation.kTanh if function == "tanh" else Activation.kSigmoid, x.shape[0],
                  &into[0])
        return y
    for i in range(x.shape[0]):
        if function == "exp":
            into[i] = exp_of(x[i])
        elif function == "log":
            into[i] = log_of(x[i])
        elif function == "bfloat16":
            into[i] = round_to_bfloat16(x[i])
        elif function == "tanh":
            into[i] = tanh_of(x[i])
        else:
            into[i] = sigmoid_of(x[i])
    return y


def multiply(weight, bias, const float[:, ::1] x, kernels=None):
    """``x @ weight.T + bias`` in the written order: [rows, outputs]."""
    cdef Matrix matrix
    keep = []
    matrix.pack(weights_of(weight, bias, keep))
    padded = np.zeros((max(x.shape[0], 1), matrix.room_for_inputs()), dtype=np.float32)
    padded[: x.shape[0], : x.shape[1]] = x
    y = np.zeros((max(x.shape[0], 1), matrix.room_for_outputs()), dtype=np.float32)
    cdef float[:, ::1] rows = padded
    cdef float[:, ::1] into = y
    cdef const Kernels* unit = kernels_named(kernels)
    with nogil:
        multiply_rows(unit[0], matrix, &rows[0, 0], rows.shape[1], x.shape[0], &into[0, 0], into.shape[1])
    return y[: x.shape[0], : weight.shape[0]].copy()


def lstm_step(gates_from_input, gates_recurrent, cell, kernels=None):
    """(hidden, cell) after one step of an LSTM layer."""
    cdef const float[::1] input = gates_from_input
    cdef const float[::1] recurrent = gates_recurrent
    next_cell = cell.copy()
    hidden = np.empty_like(cell)
    cdef float[::1] cells = next_cell
    cdef float[::1] into = hidden
    kernels_named(kernels).lstm(&input[0], &recurrent[0], cells.shape[0], &cells[0], &into[0])
    return hidden, next_cell
