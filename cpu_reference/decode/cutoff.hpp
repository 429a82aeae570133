// Stage cutoff: which tokens may leave in this frame.
//
// in   tokens[n] (survivors of the last frame; the best has cost 0), beam, max_active (0: no limit)
// out  the largest cost that may leave
// rule best + beam, lowered to the max_active-th smallest cost; all tokens equal to it stay, so ties may exceed
//      max_active
#pragma once

#include <algorithm>
#include <limits>

#include "decode/tokens.hpp"

namespace arcbeam::twin {

// Memory that the selection reuses from frame to frame.
using CutoffScratch = Buffer<float>;

inline float cutoff(const Buffer<Token>& tokens, float beam, std::uint32_t max_active, CutoffScratch& scratch) {
    float best = std::numeric_limits<float>::infinity();
    for (const Token& token : tokens) {
        best = std::min(best, token.cost);
    }
    const float bound = beam_bound(best, beam);
    if (max_active == 0 || tokens.size() <= max_active) {
        return bound;
    }
    scratch.resize(tokens.size());
    std::transform(tokens.begin(), tokens.end(), scratch.begin(), [](const Token& token) { return token.cost; });
    float* const nth = scratch.begin() + (max_active - 1);
    std::nth_element(scratch.begin(), nth, scratch.end());
    return std::min(bound, *nth);
}

}  // namespace arcbeam::twin
