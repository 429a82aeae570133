// The structs through which the host and the kernels of beam search talk to each other; both compile them.
//
// Everything of an utterance lies in arrays that have room for so many entries, histories, labels and predictions.
// An utterance that needs more room waits; the launch ends, and the next one takes over everything into a larger
// memory.
#pragma once

#include <cstdint>
#include <type_traits>

#include "shared/portable.hpp"
#include "transducer/beam/device_state.hpp"
#include "transducer/device_network.hpp"

namespace arcbeam::transducer::beam {

constexpr std::uint32_t kMostHypotheses = 32U;  // one for each thread of a warp
constexpr std::uint32_t kRoot = 0U;             // the history without labels
using Hypothesis = DeviceHypothesis;
using Label = DeviceLabel;
using Node = DeviceNode;
using Fused = DeviceFused;
using Lane = DeviceLane;

struct alignas(16) Candidate {
    std::uint64_t key;    // rank_key of its score, and the rank of its source times the tokens plus its token
    std::uint64_t order;  // see order_of
};

// What the joint network says about a live hypothesis. `log_sum` is not finite if one of the logits is not.
struct alignas(16) RowSums {
    float largest;
    float log_sum;
    float best_duration;
    float confidence;
};

// With models, of a row: the best score, the log-prob of all labels together, the weight of that, and whose addends
// there are; kNowhere if the utterance has no models.
struct alignas(16) FusedSums {
    float best;
    float of_labels;
    float weight;
    std::uint32_t slot;
};

// What there is room for in one utterance: hypotheses in a bucket, histories, labels, predictions.
struct Rooms {
    std::uint32_t bucket;
    std::uint32_t nodes;  // a power of two
    std::uint32_t labels;
    std::uint32_t slots;
};

// How many there are of everything else.
struct Sizes {
    Precision precision;
    std::uint32_t lanes;
    std::uint32_t hypotheses;  // that live
    std::uint32_t frames;      // buckets of later frames: as many as the longest duration, and one
    std::uint32_t durations;   // at least 1
    std::uint32_t layers;      // at least 1
    std::uint32_t unit_stride;
    std::uint32_t joint_stride;
    std::uint32_t context;
    std::uint32_t addends;  // with models: the tokens; without: 0
    std::uint32_t has_ilm;  // 1: with an internal language model
};

// A bucket more: of the labels that stay on their frame.
ARCBEAM_HD constexpr std::uint32_t buckets_of(const Sizes& sizes) { return sizes.frames + 1U; }

// The arrays of all utterances, by lane, and in that order.
struct Memory {
    Lane* lanes;
    Hypothesis* live;            // [lanes][hypotheses]
    Label* log;                  // [lanes][labels]
    double* parts;               // with models, [lanes][hypotheses][kParts]: of those that live at the end
    Hypothesis* buckets;         // [lanes][frames + 1][bucket]
    std::uint32_t* counts;       // [lanes][frames + 1]
    Node* nodes;                 // [lanes][nodes]
    std::uint32_t* places;       // [lanes][nodes][frames + 1]: where a bucket has the history, if it has
    std::uint64_t* best;         // [lanes][nodes]: 0 but for a moment
    std::uint64_t* keys;         // [lanes][2 nodes]: the table of children, node << 32 | token, plus 1; 0 is empty
    std::uint32_t* children;     // [lanes][2 nodes]
    std::uint32_t* slots;        // [lanes][slots]: the history of a prediction, plus 1; 0 is free
    std::uint32_t* marks;        // [lanes][slots]: 1 where it is needed; 0 but for a moment
    std::uint64_t* tested;       // [lanes][slots]: the round of its last tests, plus 1, << 32 | the first of them
    std::uint32_t* tests;        // [lanes][hypotheses]: that of a live one on this frame
    RowSums* sums;               // [lanes][hypotheses]
    float* durations;            // [lanes][hypotheses][durations]
    std::uint64_t* best_labels;  // [lanes][hypotheses][durations][hypotheses]
    Candidate* candidates;       // [lanes][2][2 hypotheses * durations]: as found, and in order
    void* hidden;                // in the precision: [lanes * slots + 1][layers][unit_stride]; the last one is 0
    float* cell;                 // the same
    float* predictions;          // [lanes * slots + 1][joint_stride]
    std::int32_t* contexts;      // [lanes * slots + 1][context]
    Fused* fused;                // with models, [lanes][nodes]
    FusedSums* fused_sums;       // with models, [lanes][hypotheses]
    float* addends;              // with models, [lanes * slots][tokens]: what they add to the scores of labels
    float* ilm;                  // the same: of these the internal language model's part, which is subtracted
    Rooms rooms;
};

// Lays the arrays out in memory that is 0 at first; their bytes are returned. The host reads the first `returned`.
inline std::uint64_t lay_out(const Sizes& sizes, const Rooms& rooms, std::uint64_t at, Memory& memory,
                             std::uint64_t& returned) {
    const std::uint64_t first = at;
    const auto take = [&at](auto*& array, std::uint64_t count) {
        array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at);
        at += padded16(count * sizeof(*array));
    };
    const std::uint64_t lanes = sizes.lanes;
    const std::uint64_t buckets = buckets_of(sizes);
    const std::uint64_t most = sizes.hypotheses;
    const std::uint64_t slots = lanes * rooms.slots + 1U;
    take(memory.lanes, lanes);
    take(memory.live, lanes * most);
    take(memory.log, lanes * rooms.labels);
    const std::uint64_t fused = sizes.addends > 0U ? lanes : 0U;
    take(memory.parts, fused * most * kParts);
    returned = at - first;
    take(memory.buckets, lanes * buckets * rooms.bucket);
    take(memory.counts, lanes * buckets);
    take(memory.nodes, lanes * rooms.nodes);
    take(memory.places, lanes * rooms.nodes * buckets);
    take(memory.best, lanes * rooms.nodes);
    take(memory.keys, 2U * lanes * rooms.nodes);
    take(memory.children, 2U * lanes * rooms.nodes);
    take(memory.slots, lanes * rooms.slots);
    take(memory.marks, lanes * rooms.slots);
    take(memory.tested, lanes * rooms.slots);
    take(memory.tests, lanes * most);
    take(memory.sums, lanes * most);
    take(memory.durations, lanes * most * sizes.durations);
    take(memory.best_labels, lanes * most * sizes.durations * most);
    take(memory.candidates, 4U * lanes * most * sizes.durations);
    take(memory.cell, slots * sizes.layers * sizes.unit_stride);
    take(memory.predictions, slots * sizes.joint_stride);
    take(memory.contexts, slots * sizes.context);
    take(memory.fused, fused * rooms.nodes);
    take(memory.fused_sums, fused * most);
    take(memory.addends, fused * rooms.slots * sizes.addends);
    take(memory.ilm, sizes.has_ilm * fused * rooms.slots * sizes.addends);
    memory.hidden = reinterpret_cast<void*>(at);
    at += padded16(slots * sizes.layers * sizes.unit_stride * value_bytes(sizes.precision));
    memory.rooms = rooms;
    return at - first;
}

struct BeamParams {
    Memory memory;
    Memory before;  // of the launch that this one goes on from; without rooms: none
    Sizes sizes;
    std::uint32_t* counters;    // [3][2], 0 at first: the tests and steps of a round, which take turns
    std::uint32_t* needs_room;  // 1: an utterance waits for more room
    std::uint32_t* test_slot;   // [most_tests]: whose prediction is tested
    std::uint32_t* test_row;    // [most_tests]: with which frame
    std::uint32_t* step_from;   // [most_tests]: the prediction before a step, that after it, and the token
    std::uint32_t* step_to;
    std::uint32_t* step_token;
    float beam;
    std::uint32_t settle_frames;  // 0: labels do not settle by age
    std::uint32_t sums;           // 1: paths of one history are added up; 0: the best one counts
    // Of chunks of streams, see state.cuh; without `packed` they are whole utterances.
    std::uint32_t from_states;      // 1: the launch begins with the states there; 0: it goes on from one before
    unsigned char* packed;          // states; those before the chunks at first, then those after them
    std::uint32_t* packed_pieces;   // of 16 bytes that are taken; at first those of the PackedLanes
    const std::uint32_t* restored;  // [num_restored]: slots with predictions of the states
    std::uint32_t num_restored;
};

struct BeamLoopParams {
    LoopParams loop;  // of which lanes and windows, and what has a place in Memory, are not used
    BeamParams beam;
};

// What models make of the scores of labels, see models.cuh.
struct FusionOfBeam {
    const TokenAutomaton* automata;  // [lanes][kBeamModels]; without states: none
    const std::uint32_t* starts;     // [lanes][kBeamModels]: their first states
    float factors[kBeamModels];
    float ilm_scale;               // 0: no internal language model
    std::uint32_t has_ilm;         // 1: its log-probs are needed
    std::uint32_t no_encoder_row;  // among the projected frames: one of zeros
};

struct FusedBeamLoopParams {
    BeamLoopParams search;
    FusionOfBeam fusion;
};

// Dynamic shared memory of a block, before that of the weights.
constexpr std::uint64_t shared_bytes(Precision precision, std::uint64_t warps) {
    return 32U + padded16(4U * 2U * tile_values(precision) * warps);
}

}  // namespace arcbeam::transducer::beam
