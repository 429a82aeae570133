// Stage cutoff: which tokens may leave in this frame. The rule is the twin's, cpu_reference/decode/cutoff.hpp.
//
// in   n tokens and their order (the best has cost 0), beam, max_active (0: no limit), histogram[256] in shared
// memory out  the largest cost that may leave, the same in every thread; tokens of that cost that are not
//      expanded have lost their emitting arcs, so no later stage needs a list of them
//
// Radix selection, four digits of eight bits, finds the max_active-th smallest ordered() cost. Where not all tokens
// of that cost have a place, it goes on with the other words of their order. A frame that is redone finds the same.
#pragma once

#include "decode/workspace.cuh"

namespace arcbeam {

// The order of tokens as words of 32 bits, of which the first counts most: the cost, and here the state.
struct StateOrder {
    Array<Token> token;
    Array<std::uint32_t> state;

    ARCBEAM_DEVICE std::uint32_t word(std::uint32_t i, std::uint32_t at) const {
        return at == 0U ? ordered(simt::load(&token.at(i)->cost)) : static_cast<std::uint32_t>(state[i]);
    }
};

// The first of the words before `end` in which two tokens differ; `end` if there is none.
template <class Order>
ARCBEAM_DEVICE std::uint32_t first_difference(const Order& order, std::uint32_t a, std::uint32_t b,
                                              std::uint32_t end) {
    std::uint32_t at = 0U;
    ARCBEAM_ROLLED
    while (at < end && order.word(a, at) == order.word(b, at)) {
        ++at;
    }
    return at;
}

// Among the tokens that agree with token `last` in the words before `at`, finds the word of the one that has
// control.rank of them before it: control.selected. Then control.rank says how many equals come before it in turn,
// or kNoIndex where all equals have a place. Barriers are passed, one at the end.
template <class Order>
ARCBEAM_DEVICE void select_word(std::uint32_t n, const Order& order, std::uint32_t last, std::uint32_t at,
                                const Array<std::uint32_t>& histogram, Control& control) {
    const std::uint32_t thread = simt::thread_rank();
    for (std::uint32_t shift = 32U; shift > 0U;) {
        shift -= 8U;
        for (std::uint32_t bin = thread; bin < kHistogramBins; bin += simt::block_size()) {
            histogram[bin] = 0U;
        }
        simt::block_barrier();
        const std::uint32_t selected = simt::load(&control.selected);
        const std::uint32_t known = shift == 24U ? 0U : 0xffffffffU << (shift + 8U);
        for (std::uint32_t i = thread; i < n; i += simt::block_size()) {
            const std::uint32_t word = order.word(i, at);
            if ((word & known) == selected && first_difference(order, i, last, at) == at) {
                simt::atomic_add<Scope::block>(histogram.at(word >> shift & 0xffU), 1U);
            }
        }
        simt::block_barrier();
        if (thread == 0U) {
            std::uint32_t rank = simt::load(&control.rank);
            std::uint32_t bin = 0U;
            while (rank >= histogram[bin]) {
                rank -= histogram[bin++];
            }
            const bool all_have_a_place = shift == 0U && rank + 1U == histogram[bin];
            simt::store(&control.rank, all_have_a_place ? kNoIndex : rank);
            simt::store(&control.selected, selected | bin << shift);
        }
        simt::block_barrier();
    }
}

template <class Order>
ARCBEAM_DEVICE float cutoff(const Order& order, std::uint32_t n, float beam, std::uint32_t max_active,
                            const Array<std::uint32_t>& histogram, Control& control) {
    const float bound = beam_bound(0.0F, beam);
    if (max_active == 0U || n <= max_active) {
        return bound;
    }
    const std::uint32_t thread = simt::thread_rank();
    if (thread == 0U) {
        simt::store(&control.selected, 0U);
        simt::store(&control.rank, max_active - 1U);
    }
    float nth = bound;
    std::uint32_t words = 0U;
    std::uint32_t last = 0U;  // agrees with the last token that leaves in the first `words` words
    for (bool all_have_a_place = false; !all_have_a_place;) {
        select_word(n, order, last, words, histogram, control);
        const std::uint32_t selected = simt::load(&control.selected);
        all_have_a_place = simt::load(&control.rank) == kNoIndex;
        if (words == 0U) {
            nth = from_ordered(selected);
            if (all_have_a_place || nth > bound) {
                return nth < bound ? nth : bound;
            }
        }
        ARCBEAM_ROLLED
        for (std::uint32_t i = thread; i < n; i += simt::block_size()) {
            if (order.word(i, words) == selected && first_difference(order, i, last, words) == words) {
                simt::atomic_exchange<Scope::block>(&control.last_leaving, i);  // any of them will do
            }
        }
        simt::block_barrier();
        last = simt::load(&control.last_leaving);
        ++words;
        if (thread == 0U) {
            simt::store(&control.selected, 0U);
        }
    }
    // Those that come after it lose their arcs
    ARCBEAM_ROLLED
    for (std::uint32_t i = thread; i < n; i += simt::block_size()) {
        const std::uint32_t at = first_difference(order, last, i, words);
        if (at < words && order.word(last, at) < order.word(i, at)) {
            simt::store(&order.token.at(i)->first_emitting, simt::load(&order.token.at(i)->arcs_end));
        }
    }
    simt::block_barrier();
    return nth;
}

}  // namespace arcbeam
