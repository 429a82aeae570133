// The arithmetic of scores, written once for both engines.
//
// A cost is a negative natural-log probability in IEEE float32. Every sum below has one association and one
// rounding per operation. Both compilers have flags not to contract a product and a sum into one instruction
// (-fmad=false, -ffp-contract=off), so equal inputs give equal bytes on every machine.
#pragma once

#include <limits>

#include "shared/portable.hpp"

namespace arcbeam {

constexpr float kLargestCost = 3.402823466e38F;
constexpr float kInfiniteCost = std::numeric_limits<float>::infinity();

// Cost of reading a column in a frame, before any blank penalty. logp = -inf gives +inf: never read.
ARCBEAM_HD float acoustic_cost(float logp, float acoustic_scale) { return -(acoustic_scale * logp); }

// The blank's acoustic cost under a penalty.
ARCBEAM_HD float penalise(float acoustic, float blank_penalty) { return acoustic + blank_penalty; }

// Cost of a path after an emitting arc.
ARCBEAM_HD float extend(float cost, float acoustic, float arc_weight) { return (cost + acoustic) + arc_weight; }

// Cost of a path after an epsilon arc.
ARCBEAM_HD float extend_epsilon(float cost, float arc_weight) { return cost + arc_weight; }

// The largest cost that a beam around `best` admits.
ARCBEAM_HD float beam_bound(float best, float beam) { return best + beam; }

// Finite: neither infinite nor NaN.
ARCBEAM_HD bool is_finite(float cost) { return cost >= -kLargestCost && cost <= kLargestCost; }

// Admission: a candidate is kept iff it is finite and within the bound (the bound itself may be +inf).
ARCBEAM_HD bool admits(float bound, float cost) { return cost <= bound && is_finite(cost); }

// The cost that a survivor keeps after a frame; `best` is added to the utterance's float64 offset.
ARCBEAM_HD float rescale(float cost, float best) { return cost - best; }

}  // namespace arcbeam
