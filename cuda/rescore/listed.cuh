// An utterance's list of phrases as a search without models reads it: first a filter in shared memory, which
// may take a word for one of a phrase that is in none, but never the other way round (Bloom 1970). Most words of a
// search are in no phrase, and reading the list itself, in device memory, takes as long as several stages.
//
// in   the list
// out  Listed, in the second half of the memory for the rounds of an expansion: where the list is, and two bits for
//      each word of its phrases
//
// The block that owns a lane makes it when an utterance begins or resumes.
#pragma once

#include "rescore/rescore_lane.cuh"
#include "shared/boost.hpp"

namespace arcbeam {

constexpr std::uint32_t kRoundsWithFilter = kSharedRounds / 2U;
constexpr std::uint32_t kFilterWords = 2U * (kSharedRounds - kRoundsWithFilter) - 6U;
constexpr std::uint32_t kFilterBits = 32U * kFilterWords;
// Above so many places in a list's table there is no filter: most bits would be set, and reading the list takes
// long
constexpr std::uint32_t kMostPlaces = 1U << 14U;

struct Listed {
    std::uint32_t filter[kFilterWords];
    const BoostState* states;
    const BoostArc* arcs;
    std::uint32_t mask;
    std::uint32_t unused;
};

static_assert(sizeof(Listed) == 8U * (kSharedRounds - kRoundsWithFilter), "the rounds have half of their memory");

ARCBEAM_DEVICE Listed& listed_of(const RescoringLane& lane) {
    return *reinterpret_cast<Listed*>(lane.rounds.data + kRoundsWithFilter);
}

ARCBEAM_DEVICE BoostView list_of_phrases(const Listed& listed) {
    return {simt::load(&listed.states), simt::load(&listed.arcs), simt::load(&listed.mask)};
}

// The two bits of a word.
struct FilterBits {
    std::uint32_t first;
    std::uint32_t second;
};

ARCBEAM_DEVICE FilterBits filter_bits(std::uint32_t word) {
    const std::uint32_t mixed = word * 0x9e3779b1U;
    return {scaled(mixed, kFilterBits), scaled((mixed ^ mixed >> 15U) * 0x85ebca6bU, kFilterBits)};
}

ARCBEAM_DEVICE bool may_be_listed(const Listed& listed, std::uint32_t word) {
    const FilterBits bits = filter_bits(word);
    const std::uint32_t first = simt::load(listed.filter + bits.first / 32U) >> bits.first % 32U;
    const std::uint32_t second = simt::load(listed.filter + bits.second / 32U) >> bits.second % 32U;
    return (first & second & 1U) != 0U;
}

// What a word adds to a path, by the list alone.
ARCBEAM_DEVICE BoostStep listed_step(const Listed& listed, std::uint32_t state, std::uint32_t word) {
    if (may_be_listed(listed, word)) {
        return boost_step(list_of_phrases(listed), state, word);
    }
    return state == kNoPhrase ? unlisted_step() : unlisted_step(list_of_phrases(listed), state);
}

// A barrier is passed; another must follow. A thread takes kEach places at a time, because they come from far.
ARCBEAM_DEVICE void list_words(const BoostView& boost, Listed& listed) {
    constexpr std::uint32_t kEach = 8U;
    const bool is_long = boost.mask >= kMostPlaces;
    for (std::uint32_t i = simt::thread_rank(); i < kFilterWords; i += simt::block_size()) {
        simt::store(listed.filter + i, is_long ? 0xffffffffU : 0U);
    }
    if (simt::thread_rank() == 0U) {
        simt::store(&listed.states, boost.states);
        simt::store(&listed.arcs, boost.arcs);
        simt::store(&listed.mask, boost.mask);
    }
    simt::block_barrier();
    const std::uint32_t size = simt::block_size();
    for (std::uint32_t first = simt::thread_rank(); !is_long && first <= boost.mask; first += kEach * size) {
        std::uint32_t word[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * size;
            word[k] = i <= boost.mask ? simt::load_readonly(&boost.arcs[i].word) : kNoWord;
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (word[k] != kNoWord) {
                const FilterBits bits = filter_bits(word[k]);
                simt::atomic_or<Scope::block>(listed.filter + bits.first / 32U, 1U << bits.first % 32U);
                simt::atomic_or<Scope::block>(listed.filter + bits.second / 32U, 1U << bits.second % 32U);
            }
        }
    }
}

}  // namespace arcbeam
