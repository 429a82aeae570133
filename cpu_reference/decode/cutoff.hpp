// Stage cutoff: which tokens may leave in this frame.
//
// in   tokens[n] (survivors of the last frame; the best has cost 0), beam, max_active (0: no limit), the order of
//      tokens of one cost: `order.precedes(i, j)`, as the ends of backtrack.hpp have it
// out  the largest cost that may leave, and which tokens of that cost are not expanded
// rule the tokens within best + beam leave; of more than max_active, the first max_active in the order of law 2.
// The
//      order counts only where equals of the max_active-th smallest cost do not all have a place, which is rare
#pragma once

#include <algorithm>
#include <limits>

#include "decode/tokens.hpp"

namespace arcbeam::twin {

struct Cutoff {
    float cost = 0.0F;
    bool breaks_ties = false;
    Buffer<std::uint8_t> excluded;  // [n] if it breaks ties: 1 for a token of its cost that does not leave

    // Memory that the selection reuses from frame to frame
    Buffer<float> costs;
    Buffer<std::uint32_t> equals;

    [[nodiscard]] const std::uint8_t* marks() const { return breaks_ties ? excluded.begin() : nullptr; }
};

// Of the tokens that cost what the cut-off does, `places` leave.
template <typename Order>
[[gnu::noinline]] void break_ties(const Buffer<Token>& tokens, const Order& order, std::size_t places,
                                  Cutoff& cut) {
    cut.breaks_ties = true;
    cut.excluded.fill(tokens.size(), 0);
    cut.equals.clear();
    for (std::uint32_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i].cost == cut.cost) {
            cut.equals.add(i);
        }
    }
    std::uint32_t* const first_excluded = cut.equals.begin() + places;
    std::nth_element(cut.equals.begin(), first_excluded, cut.equals.end(),
                     [&order](std::uint32_t i, std::uint32_t j) { return order.precedes(i, j); });
    for (const std::uint32_t* i = first_excluded; i != cut.equals.end(); ++i) {
        cut.excluded[*i] = 1;
    }
}

template <typename Order>
void cutoff(const Buffer<Token>& tokens, float beam, std::uint32_t max_active, const Order& order, Cutoff& cut) {
    float best = std::numeric_limits<float>::infinity();
    for (const Token& token : tokens) {
        best = std::min(best, token.cost);
    }
    cut.cost = beam_bound(best, beam);
    cut.breaks_ties = false;
    if (max_active == 0 || tokens.size() <= max_active) {
        return;
    }
    cut.costs.resize(tokens.size());
    std::transform(tokens.begin(), tokens.end(), cut.costs.begin(), [](const Token& token) { return token.cost; });
    float* const nth = cut.costs.begin() + (max_active - 1);
    std::nth_element(cut.costs.begin(), nth, cut.costs.end());
    if (*nth > cut.cost) {
        return;
    }
    cut.cost = *nth;
    if (std::find(nth + 1, cut.costs.end(), *nth) != cut.costs.end()) {
        const auto of_less = std::count_if(cut.costs.begin(), nth, [nth](float cost) { return cost < *nth; });
        break_ties(tokens, order, max_active - static_cast<std::size_t>(of_less), cut);
    }
}

}  // namespace arcbeam::twin
