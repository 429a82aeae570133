"""The structures that the host and the transducer kernels share: ``cuda/transducer/device_network.hpp``."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from arcbeam.transducer._token_automaton cimport TokenAutomaton

cdef extern from "transducer/device_network.hpp" namespace "arcbeam::transducer" nogil:
    cdef enum:
        kMostLayers, kKeyBuffers

    cdef enum class Precision(uint32_t):
        float32
        bfloat16

    cdef struct DeviceMatrix:
        const void* values
        const float* bias
        uint32_t rows
        uint32_t stride

    cdef struct DeviceLayer:
        DeviceMatrix recurrent
        DeviceMatrix input

    cdef enum class JointActivation(uint32_t):
        tanh
        relu
        sigmoid

    cdef struct DeviceNetwork:
        DeviceMatrix encoder
        DeviceMatrix prediction
        DeviceMatrix output
        DeviceLayer layers[8]
        const float* tables
        const float* convolution_bias
        uint32_t tokens
        uint32_t durations
        uint32_t units
        uint32_t features
        uint32_t num_layers
        uint32_t context
        uint32_t relu
        JointActivation activation

    cdef struct EncoderView:
        const void* data
        int64_t row_stride
        uint32_t frames
        uint32_t is_half
        uint32_t first_row
        uint32_t padding

    cdef struct FrameGroup:
        uint32_t utterance
        uint32_t first_frame

    cdef struct ProjectParams:
        DeviceNetwork network
        const EncoderView* utterances
        const FrameGroup* groups
        float* projected
        uint64_t* bad_inputs
        uint32_t num_groups
        uint32_t staged

    cdef enum class LaneOutcome(uint32_t):
        decoded
        bad_input

    cdef struct LaneState:
        uint32_t frame
        uint32_t frames
        uint32_t window
        uint32_t count
        uint32_t steps
        LaneOutcome outcome
        uint32_t first_row
        uint32_t fresh

    cdef struct Record:
        uint32_t token

    cdef enum class Statistic(uint32_t):
        none
        largest
        weighted
        power
        log_power

    cdef struct ConfidenceParams:
        Statistic statistic
        uint32_t exponential
        float alpha
        float factor
        float offset
        float scale
        float shift

    cdef struct LoopParams:
        DeviceNetwork network
        ConfidenceParams confidence
        LaneState* lanes
        const EncoderView* utterances
        const uint64_t* bad_inputs
        const float* projected
        void* hidden
        float* cell
        int32_t* contexts
        float* predictions
        void* joined
        float* logits
        uint64_t* keys
        Record* records
        const uint32_t* lengths
        uint32_t* arrived
        uint32_t* status
        uint32_t* ending
        uint32_t* cancelled
        const uint32_t* cancel
        uint64_t patience
        uint32_t num_lanes
        uint32_t room
        uint32_t most_tests
        uint32_t first_window
        uint32_t widest_window
        uint32_t blank
        uint32_t max_symbols
        uint32_t resumed
        uint32_t frame_looping
        uint32_t teams
        uint32_t joins_alone

    cdef struct FusionParams:
        const TokenAutomaton* automata
        uint32_t* states
        float* biases
        uint32_t* next_states
        uint64_t* keys
        float[2] alphas
        uint32_t[2] used

    cdef struct FusedLoopParams:
        LoopParams loop
        FusionParams fusion

    uint64_t padded16(uint64_t bytes)
    uint64_t fused_bytes(uint64_t lanes, uint64_t tests)
    uint64_t common_bytes(Precision precision, uint64_t lanes, uint64_t tests, uint64_t context, uint64_t warps)
    uint64_t together_bytes()
    uint64_t kept_bytes(Precision precision, const DeviceNetwork& network, uint32_t blocks)
    uint64_t joined_bytes(Precision precision, const DeviceNetwork& network, uint64_t tests)
    uint64_t staged_frames_bytes(const DeviceNetwork& network)
    uint32_t value_bytes(Precision precision)

cdef extern from "shared/transducer_bfloat16.hpp" namespace "arcbeam::transducer" nogil:
    uint32_t to_bfloat16(float value)
