// The structs, beyond those of decode/search.hpp, through which the host and the search kernel with a large
// language model talk to each other.
#pragma once

#include <cstdint>

#include "decode/search.hpp"
#include "shared/boost.hpp"
#include "shared/lm_buckets.hpp"
#include "shared/requests.hpp"
#include "shared/rescoring.hpp"

namespace arcbeam {

// What a lane that sends requests to the host may lack, beyond the needs in decode/search.hpp: answers, or room for
// questions.
constexpr Need kNeedsAnswers = Need{16U};
constexpr Need kNeedsRequestRoom = Need{17U};

// Counters of look-ups, over all lanes.
struct LookupCounters {
    std::uint64_t lookups;   // words that were rescored
    std::uint64_t distinct;  // of these, with different (history, word) in their step of a frame; for lanes that
                             // request arcs, the arcs and back-off weights of these
    std::uint64_t misses;    // of these, answered neither by the arc cache nor by an earlier answer to the lane
    std::uint64_t reads;     // loads of the large model that these took; see index_is_near
    std::uint64_t worked;    // clock cycles of lanes that send requests
    std::uint64_t waited;    // of these, spent waiting for its answers
    std::uint64_t stamps;    // answers written to the cache of arc_cache.cuh
};

// An arc cache, direct-mapped, the newest wins, shared by all lanes. It holds answers of the models by (state,
// label), see arc_cache.cuh. For lanes that request arcs from the host it holds single arcs and back-off weights,
// see single_arcs.cuh.
struct ArcCacheView {
    std::uint64_t* entries;  // [size][kCacheWords], or [size][kSingleWords]; all bits 0: empty
    std::uint32_t size;      // 0: no cache
};

constexpr std::uint32_t kCacheWords = 4U;
constexpr std::uint32_t kSingleWords = 2U;

// How many histories of a model of its own the host numbers at a time. The numbers are states of the large model.
constexpr std::uint64_t kMostHistories = std::uint64_t{1} << 28U;

// How many bits of a history the state of the small model and that of the boost take, where histories have both;
// the large model's state has the rest. See history.cuh.
struct SharedBits {
    std::uint32_t small;
    std::uint32_t boost;
};

constexpr std::uint32_t bits_for(std::uint64_t states) {
    std::uint32_t bits = 0U;
    while (std::uint64_t{1} << bits < states) {
        ++bits;
    }
    return bits;
}

// Models have at most 2^31 states each. One bit of a history is never set, because all bits 1 stand for none.
constexpr SharedBits shared_bits(std::uint64_t large_states, std::uint64_t small_states) {
    const std::uint32_t left = 63U - bits_for(large_states) - bits_for(small_states);
    return {bits_for(small_states), left < 31U ? left : 31U};
}

// Both models' states and that of a boost as one history.
ARCBEAM_HD History shared_history(const SharedBits& bits, const History& models, std::uint32_t boost) {
    const std::uint64_t both = static_cast<std::uint64_t>(models.large) << bits.small | models.small;
    const std::uint64_t all = both << bits.boost | boost;
    return {static_cast<std::uint32_t>(all >> 32U), static_cast<std::uint32_t>(all)};
}

struct RescoringParams {
    SearchParams search;
    RescoringView lms;
    const std::uint32_t* words;  // [num_arcs]: output labels of the graph
    LookupCounters* counters;
    ArcCacheView cache;
    const RequestView* views;            // [lanes]
    const std::uint32_t* history_words;  // [numbers][words_a_history], for Requested::model; see order.cuh
    std::uint32_t hypotheses_per_state;  // 0: no limit
    std::uint32_t epsilon_words;         // whether any epsilon arc has a word
    std::uint32_t index_is_near;         // 1: loads of the large model's index are not counted
    std::uint32_t words_a_history;
    LmBuckets buckets;        // of the large model, if it is in buckets: then only the sizes in its view are read
    const BoostView* boosts;  // [num_utterances], for kernels that boost
    SharedBits bits;          // for those that have models, too
};

// Tokens as in decode/search.hpp, and after them their histories.
constexpr std::uint64_t rescoring_tokens_bytes(std::uint64_t capacity) {
    return tokens_bytes(capacity) + padded(sizeof(History) * capacity);
}

// The tables of a workspace come first. Those whose free entries have all bits 1 come before the other tables. All
// sizes are multiples of 4.
constexpr std::uint64_t rescoring_free_bytes(std::uint64_t table_size) { return 20U * table_size; }

constexpr std::uint64_t rescoring_tables_bytes(std::uint64_t capacity, std::uint64_t table_size) {
    return rescoring_free_bytes(table_size) + 4U * table_size + 12U * capacity;
}

constexpr std::uint64_t rescoring_workspace_bytes(std::uint64_t capacity, std::uint64_t candidates,
                                                  std::uint64_t table_size) {
    return rescoring_tables_bytes(capacity, table_size) + 44U * capacity + 40U * candidates;
}

// The number of entries of tables that take all memory of a workspace in shared memory, while the rest of the frame
// lies in global memory. There are three quarters as many hypotheses, and half of these in the ranking.
constexpr std::uint32_t mixed_table_size(std::uint64_t bytes) {
    return static_cast<std::uint32_t>(bytes / 30U / 16U * 16U);
}

constexpr std::uint64_t kRescoringControlBytes = 160U;

// Dynamic shared memory of the kernel.
constexpr std::uint64_t rescoring_shared_bytes(std::uint64_t threads, std::uint64_t columns, std::uint64_t capacity,
                                               std::uint64_t candidates, std::uint64_t table_size) {
    return kControlBytes + kRescoringControlBytes + 4U * kHistogramBins + 8U * kSharedRounds +
           (threads + 31U) / 32U * kWarpRoomBytes + padded(4U * columns) + rescoring_tokens_bytes(capacity) +
           rescoring_workspace_bytes(capacity, candidates, table_size);
}

}  // namespace arcbeam
