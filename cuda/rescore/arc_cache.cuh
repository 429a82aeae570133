// The arc cache: answers of the models by (state, label), direct-mapped, the newest wins, shared by all lanes.
// Those of the small model are there, too: who knows what the large one says would wait for the small one
// otherwise.
//
// An entry is four words, in each a part of it and its stamp:
//
//     stamp state | stamp label | stamp cost | stamp next state
//
// Answers that are written count their stamps on; one comes again after 2^32 - 1 of them, long after the words of
// the first have been read. So words of two answers that meet in an entry are told apart: what is read counts only
// if all four have the same stamp. Nobody waits, and no answer depends on the cache.
#pragma once

#include "rescore/rescoring_search.hpp"
#include "shared/simt.cuh"

namespace arcbeam {

constexpr std::uint32_t kOfSmallModel = 0x80000000U;  // of a state in the cache; models have fewer than 2^31

ARCBEAM_DEVICE std::uint64_t* cache_entry(const ArcCacheView& cache, std::uint32_t state, std::uint32_t label) {
    const std::uint32_t mixed = (state * 0x9e3779b1U ^ label) * 0x85ebca6bU;
    const std::uint64_t at = static_cast<std::uint64_t>(mixed ^ mixed >> 15U) * 0xc2b2ae35U & 0xffffffffU;
    return cache.entries + (at * cache.size >> 32U) * kCacheWords;
}

// Finds an answer; `from` of the step is not known.
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

// Writes an answer, over whatever is there. One thread does it.
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
