// What belongs to one utterance of a beam search on a device, and the packed form in which the states of streams
// cross to the device and back: arrays of each stream as long as they are, one after the other in one memory.
//
// The packed form begins with a PackedLane of each utterance. Their arrays follow, in any order of utterances.
#pragma once

#include <cstdint>
#include <type_traits>

#include "shared/portable.hpp"
#include "transducer/lane_outcome.hpp"

namespace arcbeam::transducer::beam {

constexpr std::uint32_t kWritten = 0x80000000U;
constexpr std::uint32_t kBeamModels = 3U;           // automata: the n-gram model, the boosting tree, LODR
constexpr std::uint32_t kParts = kBeamModels + 1U;  // the internal language model is the last one

// A hypothesis. `log` is the last label of its strongest path in the log of labels, kNowhere for none. If kWritten
// is set in `duration`, a label follows on that path which is not in the log yet: the last one of its history.
struct alignas(16) DeviceHypothesis {
    std::uint32_t node;  // its history
    float score;         // of all its paths
    float path;          // of the strongest one
    std::uint32_t log;
    std::uint32_t frame;  // of that label
    std::uint32_t duration;
    float log_prob;
    float confidence;
};

struct DeviceLabel {
    std::uint32_t before;  // its place in the log
    std::uint32_t token;
    std::uint32_t frame;  // from the first one of the chunk; modulo 2^32 where it is before that
    std::uint32_t duration;
    float log_prob;
    float confidence;
};

struct alignas(16) DeviceNode {
    std::uint32_t parent;
    std::uint32_t token;
    std::uint32_t slot;  // its prediction, kNowhere if it has none
    std::uint32_t padding;
};

// With models, of a history: what each has added to its score, the states of the automata after it, and what each
// has added to the score of its last label, the internal language model's share to be subtracted.
struct alignas(16) DeviceFused {
    double parts[kParts];
    std::uint32_t states[kBeamModels];
    float shares[kParts];
};

struct DeviceLane {
    double offset;  // scores are relative to it
    std::uint32_t frame;
    std::uint32_t symbols;
    std::uint32_t frames;
    std::uint32_t first_row;  // of its projected frames
    std::uint32_t live;
    std::uint32_t nodes;
    std::uint32_t labels;
    std::uint32_t round;        // whose tests its live hypotheses wait for, or have
    std::uint32_t tests;        // live hypotheses that are tested in it
    std::uint32_t first_frame;  // of those on which each of them is tested
    std::uint32_t window;       // how many these are
    std::uint32_t first_extra;  // test without an encoder, of new histories
    std::uint32_t predicted;    // with an internal language model: the ranks whose histories are new in this round
    float later;                // the best score in the buckets of later frames
    LaneOutcome outcome;
    std::uint32_t bad_frame;
    std::uint32_t bad_feature;
    float bad_value;
};

struct PackedLane {
    DeviceLane lane;
    std::uint64_t at;  // of its arrays, in bytes; on the way back 0 if it has none, because it is an error
    std::uint32_t arrivals;
    std::uint32_t predictions;
};

// What all states of a decoder have in common.
struct PackedSizes {
    std::uint32_t frames;  // buckets
    std::uint32_t has_models;
    std::uint32_t layers;  // of an LSTM; 0: a stateless network
    std::uint32_t unit_stride;
    std::uint32_t value_bytes;  // of hidden states
    std::uint32_t context;
};

// The arrays of a stream, each at a multiple of 16 bytes.
struct PackedArrays {
    std::uint32_t* counts;       // [frames]: arrivals of each frame, from the first one of the chunk or after it
    DeviceHypothesis* arrivals;  // in this order
    DeviceNode* nodes;
    DeviceFused* fused;  // with models
    DeviceLabel* log;
    std::uint32_t* owners;  // [predictions]: the histories
    std::int32_t* contexts;
    float* cell;  // [predictions][layers][unit_stride]
    unsigned char* hidden;
    std::uint64_t bytes;  // of all
};

ARCBEAM_HD PackedArrays packed_arrays(unsigned char* at, const PackedSizes& sizes, std::uint64_t arrivals,
                                      std::uint64_t nodes, std::uint64_t labels, std::uint64_t predictions) {
    PackedArrays arrays{};
    const auto take = [&arrays, at](auto*& array, std::uint64_t count) {
        array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at + arrays.bytes);
        arrays.bytes += (count * sizeof(*array) + 15U) / 16U * 16U;
    };
    const std::uint64_t values = predictions * sizes.layers * sizes.unit_stride;
    take(arrays.counts, sizes.frames);
    take(arrays.arrivals, arrivals);
    take(arrays.nodes, nodes);
    take(arrays.fused, sizes.has_models * nodes);
    take(arrays.log, labels);
    take(arrays.owners, predictions);
    take(arrays.contexts, predictions * sizes.context);
    take(arrays.cell, values);
    take(arrays.hidden, values * sizes.value_bytes);
    return arrays;
}

}  // namespace arcbeam::transducer::beam
