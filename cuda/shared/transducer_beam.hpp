// The arithmetic of beam search in transducers (law 12), written once for both engines.
//
// Scores are natural logs in float32, relative to the best of their frame; every sum is rounded once.
#pragma once

#include <cstdint>

#include "shared/portable.hpp"
#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

// The score of a path with one step more: a token, and the duration that goes with it (0 for an RNN-T).
ARCBEAM_INLINED float score_after(float score, float token, float duration) { return score + (token + duration); }

// The score of two hypotheses that have become one: log(e^a + e^b), or the larger one.
ARCBEAM_INLINED float merged_score(float a, float b, bool sums) {
    const float high = a < b ? b : a;
    const float low = a < b ? a : b;
    return sums ? high + log_of(1.0F + exp_of(low - high)) : high;
}

// Hypotheses are ranked by their scores divided by this: (labels + 1)^power.
ARCBEAM_INLINED double length_factor(std::uint32_t labels, float power) {
    return static_cast<double>(exp_of(power * log_of(static_cast<float>(labels) + 1.0F)));
}

}  // namespace arcbeam::transducer
