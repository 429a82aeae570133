// A back-off language model for readers far from its memory: a look-up waits for memory only twice, however often
// it backs off.
//
// The first wait is for the chain of a history: all states that it backs off to, with their back-off weights,
// stored side by side. The second wait is, for all of these states at once, for the two buckets that may hold the
// arc of the label. The code that fills the table puts each arc into one of its two buckets (cuckoo hashing; Pagh
// and Rodler 2001), so a look-up searches no further. The empty history lists every label and has no buckets:
// its arcs are an array, which is read at the same time.
//
// Answers are those of lm_view.hpp, by the same sums.
#pragma once

#include <cstdint>

#include "shared/lm_view.hpp"
#include "shared/portable.hpp"

namespace arcbeam {

constexpr std::uint32_t kLmBucketEntries = 4U;
// Of a part: 512 KiB, which stay in the cache of the thread that fills it
constexpr std::uint32_t kLmMostBuckets = 8192U;

// A state of a chain, and its back-off weight. Zeros follow the last state.
struct LmLink {
    std::uint32_t state;
    float weight;
};

struct alignas(16) LmEntry {
    std::uint32_t state;  // the empty history: the entry is free
    std::uint32_t label;
    LmArc arc;
};

struct LmBuckets {
    const LmLink* chains;          // [num_states][links]; chains of up to 16 links lie within a line of 128 bytes
    const LmArc* words;            // [num_labels]: the arcs of the empty history
    const LmEntry* entries;        // [num_parts][buckets_a_part][kLmBucketEntries]; a bucket has 64 bytes
    std::uint32_t links;           // in a chain, a power of two
    std::uint32_t num_parts;       // an arc is in one of two buckets of one part
    std::uint32_t buckets_a_part;  // up to kLmMostBuckets
    std::uint32_t seed;
};

// The place where an arc may be.
struct LmBucketPair {
    std::uint32_t part;
    std::uint32_t first;  // bucket of the part
    std::uint32_t second;
};

ARCBEAM_HD LmBucketPair lm_buckets_of(const LmBuckets& lm, std::uint32_t state, std::uint32_t label) {
    std::uint64_t mixed = (static_cast<std::uint64_t>(state) << 32U | label) + lm.seed * 0x9e3779b97f4a7c15U;
    mixed = (mixed ^ mixed >> 32U) * 0xd6e8feb86659fd93U;
    mixed = (mixed ^ mixed >> 32U) * 0xd6e8feb86659fd93U;
    mixed ^= mixed >> 32U;
    const auto low = static_cast<std::uint32_t>(mixed);
    return {static_cast<std::uint32_t>((mixed >> 32U) * lm.num_parts >> 32U),
            (low & 0xffffU) * lm.buckets_a_part >> 16U, (low >> 16U) * lm.buckets_a_part >> 16U};
}

ARCBEAM_HD const LmEntry* lm_bucket(const LmBuckets& lm, std::uint32_t part, std::uint32_t bucket) {
    return lm.entries + (static_cast<std::uint64_t>(part) * lm.buckets_a_part + bucket) * kLmBucketEntries;
}

ARCBEAM_HD bool lm_is_at(const LmEntry& entry, std::uint32_t state, std::uint32_t label) {
    return entry.state == state && entry.label == label;
}

// The same as lm_step() of lm_view.hpp, by one thread; `from` is the state of the chain that listed the label.
ARCBEAM_HD LmStep lm_step(const LmBuckets& lm, std::uint32_t state, std::uint32_t label) {
    const LmLink* const chain = lm.chains + static_cast<std::uint64_t>(state) * lm.links;
    float backoffs = 0.0F;
    for (std::uint32_t i = 0U; i < lm.links && chain[i].state != kLmEmptyHistory; ++i) {
        const LmBucketPair pair = lm_buckets_of(lm, chain[i].state, label);
        for (std::uint32_t k = 0U; k < 2U * kLmBucketEntries && label != kUnknownLabel; ++k) {
            const LmEntry& entry =
                lm_bucket(lm, pair.part, k < kLmBucketEntries ? pair.first : pair.second)[k % kLmBucketEntries];
            if (lm_is_at(entry, chain[i].state, label)) {
                return lm_found(backoffs, entry.arc, chain[i].state);
            }
        }
        backoffs = lm_back_off(backoffs, chain[i].weight);
    }
    return label == kUnknownLabel ? lm_unknown(backoffs)
                                  : lm_found(backoffs, lm.words[label - 1U], kLmEmptyHistory);
}

}  // namespace arcbeam
