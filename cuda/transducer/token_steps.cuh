// The scores of all tokens after a state of an automaton (shared/token_automaton.hpp), and the states that follow.
//
// A warp works out those of kFillTokens tokens at a time. It goes down from the longest history and puts the arcs
// of every state in the places of tokens that have none yet; tokens without a place at the end have the arcs of the
// empty history. So the loads of a state are few and on their way together, where each token by itself would have
// to search for its arc.
#pragma once

#include "shared/simt.cuh"
#include "shared/token_automaton.hpp"

namespace arcbeam::transducer {

constexpr std::uint32_t kTokensEach = 4U;  // tokens, or arcs, of a thread
constexpr std::uint32_t kFillTokens = kTokensEach * simt::kWarpSize;
constexpr std::uint32_t kFillWords = 2U * kFillTokens;  // of scratch memory
constexpr std::uint32_t kNoArc = 0xffffffffU;           // in the place of the state that an arc leads to

// A state other than the empty history: its arcs, and what it backs off to.
struct ArcRow {
    std::uint32_t begin;
    std::uint32_t end;
    TokenArc back;
};

[[nodiscard]] ARCBEAM_DEVICE ArcRow row_of(const TokenAutomaton& automaton, std::uint32_t state) {
    if (state == 0U) {
        return {};
    }
    return {simt::load_readonly(automaton.first_arcs + state),
            simt::load_readonly(automaton.first_arcs + state + 1U),
            simt::load_readonly(automaton.backoffs + state)};
}

// A row with fewer arcs, among which are all of a part: each thread reads one of 32.
[[nodiscard]] ARCBEAM_DEVICE ArcRow narrowed(const TokenAutomaton& automaton, const ArcRow& all,
                                             std::uint32_t first) {
    if (all.end - all.begin <= kFillTokens) {
        return all;
    }
    const std::uint32_t apart = (all.end - all.begin + simt::kWarpSize - 1U) / simt::kWarpSize;
    const std::uint32_t at = all.begin + simt::warp_thread() * apart;
    const std::uint32_t token = at < all.end ? simt::load_readonly(automaton.arc_tokens + at) : kNoArc;
    const std::uint32_t below = simt::popcount(simt::ballot(simt::kAllThreads, token < first));
    const std::uint32_t up_to = simt::popcount(simt::ballot(simt::kAllThreads, token < first + kFillTokens));
    const std::uint32_t end = all.begin + up_to * apart;
    return {all.begin + (below > 0U ? below - 1U : 0U) * apart, end < all.end ? end : all.end, all.back};
}

// Arcs of one state have different tokens, so threads have different places.
ARCBEAM_DEVICE void put_arcs(const TokenAutomaton& automaton, const ArcRow& some, std::uint32_t first,
                             float backoffs, std::uint32_t* next_states, float* scores) {
    for (std::uint32_t from = some.begin + simt::warp_thread(); from < some.end; from += kFillTokens) {
        std::uint32_t places[kTokensEach];
        TokenArc arcs[kTokensEach];
        for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
            const std::uint32_t at = from + k * simt::kWarpSize;
            places[k] = at < some.end ? simt::load_readonly(automaton.arc_tokens + at) - first : kNoArc;
            arcs[k] = simt::load_readonly(automaton.arcs + (at < some.end ? at : from));
        }
        for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
            if (places[k] < kFillTokens && simt::load(next_states + places[k]) == kNoArc) {
                const TokenStep step = token_found(backoffs, arcs[k]);
                simt::store(next_states + places[k], step.next_state);
                simt::store(scores + places[k], step.score);
            }
        }
    }
}

// token_step for every token of a part; those that are not scored lead back to the state.
ARCBEAM_DEVICE void steps_of(const TokenAutomaton& automaton, std::uint32_t state, std::uint32_t first,
                             float* scratch, TokenStep* steps) {
    for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
        steps[k] = {0.0F, state};
    }
    if (first >= automaton.num_tokens) {
        return;
    }
    auto* const next_states = reinterpret_cast<std::uint32_t*>(scratch);
    float* const scores = scratch + kFillTokens;
    TokenArc of_empty_history[kTokensEach] = {};
    for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
        const std::uint32_t place = k * simt::kWarpSize + simt::warp_thread();
        if (first + place < automaton.num_tokens) {
            of_empty_history[k] = simt::load_readonly(automaton.arcs + first + place);
        }
        simt::store(next_states + place, kNoArc);
    }
    float backoffs = 0.0F;
    ArcRow row = row_of(automaton, state);
    while (state != 0U) {
        const ArcRow shorter = row_of(automaton, row.back.next_state);  // on its way meanwhile
        simt::warp_sync(simt::kAllThreads);
        put_arcs(automaton, narrowed(automaton, row, first), first, backoffs, next_states, scores);
        backoffs = token_back_off(backoffs, row.back.weight);
        state = row.back.next_state;
        row = shorter;
    }
    simt::warp_sync(simt::kAllThreads);
    for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
        const std::uint32_t place = k * simt::kWarpSize + simt::warp_thread();
        if (first + place < automaton.num_tokens) {
            const std::uint32_t next = simt::load(next_states + place);
            steps[k] = next == kNoArc ? token_found(backoffs, of_empty_history[k])
                                      : TokenStep{simt::load(scores + place), next};
        }
    }
    simt::warp_sync(simt::kAllThreads);
}

}  // namespace arcbeam::transducer
