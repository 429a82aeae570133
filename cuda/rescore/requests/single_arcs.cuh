// The arc cache of lanes that request arcs (Fukunaga et al. 2019). It holds single arcs and back-off weights of
// states, which the paper enters under (state, label 0). Direct-mapped, the newest wins, shared by all lanes. Words
// that back off from the same state, or end in the same arc, share the entries.
//
// An entry is two words:
//
//     number + 1 | weight        number + 1 | next state
//
// The values of an arc or a state never change, and an arc and a state of the same number never share an entry,
// because their hashes differ in the highest bit. So each word has what it belongs to, and words of two
// answers that meet in an entry differ. No thread waits, and no answer depends on the cache.
#pragma once

#include <cstring>

#include "rescore/rescoring_search.hpp"
#include "shared/simt.cuh"

namespace arcbeam {

constexpr std::uint32_t kFewestSingles = 2U;  // with fewer entries, an arc and a state might share one

// An arc, or a state that a look-up backs off from. There are fewer than 2^32 - 1 arcs, and fewer than 2^31 states.
struct Single {
    std::uint32_t number;
    std::uint32_t label;  // kOfState, kOfArc
};

ARCBEAM_DEVICE std::uint64_t* single_entry(const ArcCacheView& cache, const Single& single) {
    const std::uint32_t mixed = single.number * 0x9e3779b1U;
    const std::uint32_t hash = (mixed ^ mixed >> 15U) * 0xc2b2ae35U ^ single.label << 31U;
    return cache.entries + (static_cast<std::uint64_t>(hash) * cache.size >> 32U) * kSingleWords;
}

ARCBEAM_DEVICE bool find_single(const ArcCacheView& cache, const Single& single, Answer& answer) {
    if (cache.size < kFewestSingles) {
        return false;
    }
    const std::uint64_t* const entry = single_entry(cache, single);
    const std::uint64_t weight = simt::load_relaxed<simt::Scope::device>(entry);
    const std::uint64_t next_state = simt::load_relaxed<simt::Scope::device>(entry + 1);
    const auto bits = static_cast<std::uint32_t>(weight);
    std::memcpy(&answer.cost, &bits, sizeof answer.cost);
    answer.next_state = static_cast<std::uint32_t>(next_state);
    const std::uint32_t name = single.number + 1U;
    return weight >> 32U == name && next_state >> 32U == name;
}

// Writes an answer over the entry's old content. One thread does it.
ARCBEAM_DEVICE void keep_single(const ArcCacheView& cache, const Single& single, const Answer& answer) {
    if (cache.size < kFewestSingles) {
        return;
    }
    std::uint64_t* const entry = single_entry(cache, single);
    const std::uint64_t name = static_cast<std::uint64_t>(single.number + 1U) << 32U;
    std::uint32_t bits;
    std::memcpy(&bits, &answer.cost, sizeof bits);
    simt::store_relaxed<simt::Scope::device>(entry, name | bits);
    simt::store_relaxed<simt::Scope::device>(entry + 1, name | answer.next_state);
}

}  // namespace arcbeam
