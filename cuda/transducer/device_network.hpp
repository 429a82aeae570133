// The structs through which the host and the transducer kernels talk to each other; both compile them.
//
// Rows of every matrix are padded with zeros to a multiple of kStep inputs, and rows of zeros are added up to a
// multiple of kRowGroup. The rows of LSTM layers, their biases and the table are ordered by unit, then gate: row 4
// * unit + gate.
#pragma once

#include <cstdint>

#include "shared/portable.hpp"
#include "shared/token_automaton.hpp"
#include "transducer/lane_outcome.hpp"

namespace arcbeam::transducer {

constexpr std::uint32_t kStep = 32U;  // partial sums of a dot product: one for each thread of a warp
constexpr std::uint32_t kRowGroup = 16U;
constexpr std::uint32_t kGates = 4U;
constexpr std::uint32_t kMostLayers = 8U;
constexpr std::uint64_t kNothingBad = 0xffffffffffffffffULL;
constexpr std::uint32_t kKeyBuffers = 3U;  // see joint.cuh

// The precision of weights and of the values they are multiplied by.
enum class Precision : std::uint32_t { float32 = 0, bfloat16 = 1 };

struct DeviceMatrix {
    const void* values;  // of the precision: [rows, and zeros up to a row group][stride]
    const float* bias;   // [rows] or null
    std::uint32_t rows;
    std::uint32_t stride;
};

struct DeviceLayer {
    DeviceMatrix recurrent;
    DeviceMatrix input;  // of the second layer and those above
};

enum class JointActivation : std::uint32_t { tanh = 0, relu = 1, sigmoid = 2 };

struct DeviceNetwork {
    DeviceMatrix encoder;
    DeviceMatrix prediction;
    DeviceMatrix output;
    DeviceLayer layers[kMostLayers];
    const float* tables;            // LSTM: [tokens, 4 units]; stateless: [context, tokens, units]
    const float* convolution_bias;  // [units] or null
    std::uint32_t tokens;
    std::uint32_t durations;
    std::uint32_t units;
    std::uint32_t features;
    std::uint32_t num_layers;  // 0: stateless
    std::uint32_t context;
    std::uint32_t relu;
    JointActivation activation;
};

// Encoder output of an utterance: rows of contiguous features, row_stride values apart.
struct EncoderView {
    const void* data;
    std::int64_t row_stride;
    std::uint32_t frames;
    std::uint32_t is_half;
    std::uint32_t first_row;  // in the array of projected frames
    std::uint32_t padding;
};

// Up to kFrames frames of one utterance that are projected together.
struct FrameGroup {
    static constexpr std::uint32_t kFrames = 8U;
    std::uint32_t utterance;
    std::uint32_t first_frame;
};

struct ProjectParams {
    DeviceNetwork network;
    const EncoderView* utterances;
    const FrameGroup* groups;   // [num_groups]
    float* projected;           // [frames of all utterances][output.stride]
    std::uint64_t* bad_inputs;  // of each utterance: frame << 32 | feature of the first that is not finite
    std::uint32_t num_groups;
    std::uint32_t staged;  // 1, in bfloat16: blocks have shared memory for kStagedFrames, see project_staged.cuh
};

// An utterance while it is being decoded. While a kernel runs, every block has a copy in shared memory.
struct LaneState {
    std::uint32_t frame;  // to read next; at the end, the number of frames it has passed
    std::uint32_t frames;
    std::uint32_t symbols;  // written on this frame
    std::uint32_t window;   // frames to test at a time
    std::uint32_t count;    // tokens written
    std::uint32_t steps;    // of the prediction network: its last hidden state is in buffer steps % 2
    LaneOutcome outcome;
    std::uint32_t bad_frame;
    std::uint32_t bad_feature;
    std::uint32_t first_row;  // of its projected frames
    std::uint32_t fresh;      // 1: at the start of a stream
    float bad_value;
};

struct Record {
    std::uint32_t token;
    std::uint32_t frame;
    std::uint32_t duration;
    float log_prob;
    float confidence;
};

// Why a launch ended. A launch that needs room is continued where it stopped, once every lane has more.
enum class Ending : std::uint32_t { done = 0, room = 1, cancelled = 2 };

enum class Statistic : std::uint32_t { none = 0, largest = 1, weighted = 2, power = 3, log_power = 4 };

struct ConfidenceParams {
    Statistic statistic;
    std::uint32_t exponential;
    float alpha;
    float factor;
    float offset;
    float scale;
    float shift;
    std::uint32_t padding;
};

struct LoopParams {
    DeviceNetwork network;
    ConfidenceParams confidence;
    LaneState* lanes;                 // [num_lanes]
    const EncoderView* utterances;    // [num_lanes]
    const std::uint64_t* bad_inputs;  // [num_lanes]
    const float* projected;
    void* hidden;                  // in the precision: [2][num_lanes][layers, at least 1][prediction.stride]
    float* cell;                   // [num_lanes][layers][prediction.stride]
    std::int32_t* contexts;        // [num_lanes][context]
    float* predictions;            // [num_lanes][output.stride]: the prediction network's part of the hidden layer
    void* joined;                  // in the precision: [most_tests][output.stride]: hidden layers
    float* logits;                 // [most_tests][output.rows]
    std::uint64_t* keys;           // [kKeyBuffers][2][most_tests], 0 at first: best token, best duration
    Record* records;               // [num_lanes][room]
    const std::uint32_t* lengths;  // [durations]: the frames that each stands for
    std::uint32_t* arrived;        // count of blocks at barriers, 0 at first
    std::uint32_t* status;         // 0 at first; 1: a barrier has waited in vain
    std::uint32_t* ending;         // an Ending
    std::uint32_t* cancelled;      // [2], 0 at first: the value of `cancel` that all blocks use in a round
    const std::uint32_t* cancel;   // the host sets it to request an end
    std::uint64_t patience;        // clock cycles that a barrier waits
    std::uint32_t num_lanes;
    std::uint32_t room;  // records of a lane
    std::uint32_t most_tests;
    std::uint32_t first_window;
    std::uint32_t widest_window;
    std::uint32_t blank;
    std::uint32_t max_symbols;
    std::uint32_t resumed;        // 1: predictions are already there
    std::uint32_t frame_looping;  // 1: no lane goes beyond a frame while another lane is still on it
    std::uint32_t teams;          // teams of blocks, where weights are kept: see weights.cuh
    // 1, where weights are kept: every block computes the hidden layers of all tests for itself
    std::uint32_t joins_alone;
};

constexpr std::uint32_t kFusionModels = 2U;  // the n-gram model, the boosting tree

// What is added to the logits of labels, see fusion.cuh.
struct FusionParams {
    const TokenAutomaton* automata;  // [num_lanes][kFusionModels]; without states: none
    std::uint32_t* states;           // [num_lanes][kFusionModels]: where a lane begins, and where it has ended
    float* biases;                   // [num_lanes][tokens]: of the next label
    std::uint32_t* next_states;  // [2][num_lanes][kFusionModels][tokens]: after it; by parity of the labels so far
    std::uint64_t* keys;         // [kKeyBuffers][most_tests], 0 at first: best fused label
    float alphas[kFusionModels];
    std::uint32_t used[kFusionModels];  // 1: some lane has one; 0: none, and their states stay 0
};

struct FusedLoopParams {
    LoopParams loop;
    FusionParams fusion;
};

// Dynamic shared memory of a block, in this order, each array padded to 16 bytes.
constexpr std::uint64_t padded16(std::uint64_t bytes) { return (bytes + 15U) / 16U * 16U; }

constexpr std::uint32_t kLaneWords = 16U;  // arrays that have one word for each lane, see lanes.cuh

// The number of values in the largest tile.
ARCBEAM_HD constexpr std::uint32_t tile_values(Precision precision) {
    return precision == Precision::float32 ? 128U : 384U;
}

constexpr std::uint64_t common_bytes(Precision precision, std::uint64_t lanes, std::uint64_t tests,
                                     std::uint64_t context, std::uint64_t warps) {
    return 32U + kLaneWords * padded16(4U * lanes) + padded16(4U * ((lanes + 31U) / 32U)) +
           padded16(4U * lanes * context) + 2U * padded16(4U * tests) + 2U * padded16(8U * tests) +
           padded16(4U * 2U * tile_values(precision) * warps);
}

// More of it where logits are fused: after the lanes' own.
constexpr std::uint64_t fused_bytes(std::uint64_t lanes, std::uint64_t tests) {
    return padded16(4U * kFusionModels * lanes) + padded16(8U * tests);
}

ARCBEAM_HD constexpr std::uint32_t value_bytes(Precision precision) {
    return precision == Precision::float32 ? 4U : 2U;
}

// The shared memory for frames that a block rounds to bfloat16 and projects together.
constexpr std::uint32_t kStagedFrames = 64U;
constexpr std::uint64_t staged_frames_bytes(const DeviceNetwork& network) {
    return 2U * std::uint64_t{kStagedFrames} * ((network.encoder.stride / kStep | 1U) * kStep);
}

// The shared memory through which streamed float32 weights and their inputs pass, see together.cuh.
ARCBEAM_HD constexpr std::uint32_t together_bytes() { return 4U * 2U * 32U * kStep * 4U; }

// A block's share of a matrix, and the rows that hold it: as many as a tile has.
ARCBEAM_HD constexpr std::uint32_t share_of(std::uint32_t items, std::uint32_t blocks) {
    return (items + blocks - 1U) / blocks;
}
ARCBEAM_HD constexpr std::uint32_t held_rows(Precision precision, std::uint32_t rows) {
    return precision == Precision::float32 ? (rows + 3U) / 4U * 4U : (rows + 7U) / 8U * 8U;
}

// The distance between rows in shared memory. In bfloat16 it is an odd multiple of 64 bytes: 64 bytes of each of
// two rows are read together, and are then in different banks.
ARCBEAM_HD constexpr std::uint32_t held_stride(Precision precision, std::uint32_t stride) {
    return precision == Precision::float32 ? stride : (stride / kStep | 1U) * kStep;
}

// The shared memory for weights and biases that stay there.
constexpr std::uint64_t kept_bytes(Precision precision, const DeviceNetwork& network, std::uint32_t blocks) {
    const std::uint64_t units =
        std::uint64_t{value_bytes(precision)} * held_stride(precision, network.prediction.stride);
    const std::uint64_t joint =
        std::uint64_t{value_bytes(precision)} * held_stride(precision, network.output.stride);
    const std::uint64_t matrices = network.num_layers > 0U ? 2U * network.num_layers - 1U : 0U;
    const std::uint64_t prediction = held_rows(precision, share_of(network.prediction.rows, blocks));
    const std::uint64_t output = held_rows(precision, share_of(network.output.rows, blocks));
    return padded16(matrices * held_rows(precision, kGates * share_of(network.units, blocks)) * units) +
           padded16(prediction * units) + padded16(output * joint) + padded16(4U * prediction) +
           padded16(4U * output);
}

// The shared memory for the joint network's hidden layers of all tests.
constexpr std::uint64_t joined_bytes(Precision precision, const DeviceNetwork& network, std::uint64_t tests) {
    return padded16(std::uint64_t{value_bytes(precision)} * tests * held_stride(precision, network.output.stride));
}

}  // namespace arcbeam::transducer
