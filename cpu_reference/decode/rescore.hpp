// Stage rescore: the exact best of the next frame, words rescored.
//
// in   candidates and their addends (models.hpp); the beam
// out  candidates with their costs rescored; the bound: best + beam, where best is the smallest finite cost (+inf
//      if there is none)
// rule cost = (((token cost + acoustic) + arc weight) + deviation) + boost
#pragma once

#include <limits>

#include "decode/models.hpp"
#include "decode/tokens.hpp"
#include "shared/cost.hpp"

namespace arcbeam::twin {

// Sets `alive` to whether there is a finite cost.
template <typename Addend>
float rescore(const Buffer<Addend>& addends, float beam, Buffer<Candidate>& candidates, bool& alive) {
    float best = std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const float cost = rescored(candidates[i].cost, addends[i]);
        candidates[i].cost = cost;
        if (is_finite(cost) && cost < best) {
            best = cost;
        }
    }
    alive = is_finite(best);
    return beam_bound(best, beam);
}

}  // namespace arcbeam::twin
