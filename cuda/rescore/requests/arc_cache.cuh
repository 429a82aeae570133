// The arc cache: answers of the models by (state, label), direct-mapped, the newest wins, shared by all lanes.
// Answers of the small model are kept, too: otherwise a look-up that finds the large model's answer would still
// wait for the small model's.
//
// An entry is four words. Each holds one part of the entry and the entry's stamp:
//
//     stamp state | stamp label | stamp cost | stamp next state
//
// Each answer that is written gets the next stamp. A stamp comes again after 2^32 - 1 answers, long after the words
// with the old one have been read. So words of two different answers that meet in an entry differ: an
// entry counts only if all four words have the same stamp. No thread waits, and no answer depends on the cache.
#pragma once

#include "rescore/rescoring_search.hpp"
#include "shared/simt.cuh"

namespace arcbeam {

// Marks a state of the small model in the cache; models have fewer than 2^31 states
constexpr std::uint32_t kOfSmallModel = 0x80000000U;

ARCBEAM_DEVICE std::uint64_t* cache_entry(const ArcCacheView& cache, std::uint32_t state, std::uint32_t label) {
    const std::uint32_t mixed = (state * 0x9e3779b1U ^ label) * 0x85ebca6bU;
    const std::uint64_t at = static_cast<std::uint64_t>(mixed ^ mixed >> 15U) * 0xc2b2ae35U & 0xffffffffU;
    return cache.entries + (at * cache.size >> 32U) * kCacheWords;
}

// Finds an answer, except for `from` of the step, which the cache does not hold.
ARCBEAM_DEVICE bool find_cached(const ArcCacheView& cache, std::uint32_t state, std::uint32_t label, LmStep& step) {
    const std::uint64_t* const entry = cache_entry(cache, state, label);
    std::uint64_t word[kCacheWords];
    for (std::uint32_t i = 0U; i < kCacheWords; ++i) {
        word[i] = simt::load_relaxed<simt::Scope::device>(entry + i);
    }
    const std::uint64_t stamp = word[0] >> 32U;
    if (stamp == 0U || word[1] >> 32U != stamp || word[2] >> 32U != stamp || word[3] >> 32U != stamp ||
        static_cast<std::uint32_t>(word[0]) != state || static_cast<std::uint32_t>(word[1]) != label) {
        return false;
    }
    const auto bits = static_cast<std::uint32_t>(word[2]);
    std::memcpy(&step.cost, &bits, sizeof step.cost);
    step.next_state = static_cast<std::uint32_t>(word[3]);
    return true;
}

// Writes an answer over the entry's old content. One thread does it.
ARCBEAM_DEVICE void keep_cached(const ArcCacheView& cache, LookupCounters* counters, std::uint32_t state,
                                std::uint32_t label, const LmStep& step) {
    const std::uint64_t count = simt::atomic_add<simt::Scope::device>(&counters->stamps, std::uint64_t{1});
    const std::uint64_t stamp = count % 0xffffffffU + 1U;
    std::uint32_t bits;
    std::memcpy(&bits, &step.cost, sizeof bits);
    const std::uint32_t parts[kCacheWords] = {state, label, bits, step.next_state};
    std::uint64_t* const entry = cache_entry(cache, state, label);
    for (std::uint32_t i = 0U; i < kCacheWords; ++i) {
        simt::store_relaxed<simt::Scope::device>(entry + i, stamp << 32U | parts[i]);
    }
}

}  // namespace arcbeam
