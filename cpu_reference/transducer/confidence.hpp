// How sure a distribution over tokens is: NeMo's measures (Laptev & Ginsburg 2023), for tokens of transducers and
// for frames of CTC.
//
// in   the log-probs x of all tokens, or logits with what makes log-probs of them
// out  scale * f + shift, where f or log f is factor * statistic + offset
// rule the statistic is the largest x, the sum of e^(alpha x) x, the sum of e^(alpha x), or the log of that sum.
// Sums
//      have the partials and the tree of shared/transducer_math.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/portable.hpp"
#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

struct Confidence {
    enum class Statistic : std::uint8_t { kNone, kLargest, kWeighted, kPower, kLogPower };
    Statistic statistic = Statistic::kNone;
    bool exponential = false;
    float alpha = 1.0F;
    float factor = 1.0F;
    float offset = 0.0F;
    float scale = 1.0F;
    float shift = 0.0F;

    // From the largest x, or from the sum.
    [[nodiscard]] ARCBEAM_INLINED float of(float found) const {
        const float value = fused(factor, statistic == Statistic::kLogPower ? log_of(found) : found, offset);
        return fused(scale, exponential ? exp_of(value) : value, shift);
    }
};

ARCBEAM_INLINED float added(float (&partial)[kPartials]) {
    for (int s = kPartials / 2; s > 0; s /= 2) {
        for (int p = 0; p < s; ++p) {
            partial[p] = partial[p] + partial[p + s];
        }
    }
    return partial[0];
}

// The sum of e^(alpha x), or of e^(alpha x) x if `weighted`, over the log-probs x = (value - largest) - log_sum.
ARCBEAM_INLINED float powers_added(const float* values, std::size_t n, float largest, float log_sum, float alpha,
                                   bool weighted) {
    float partial[kPartials] = {};
    std::size_t i = 0;
    for (; i + kPartials <= n; i += kPartials) {
        for (std::size_t p = 0; p < kPartials; ++p) {
            const float x = log_prob(values[i + p], largest, log_sum);
            const float power = exp_of(alpha * x);
            partial[p] += weighted ? power * x : power;
        }
    }
    for (std::size_t p = 0; i + p < n; ++p) {
        const float x = log_prob(values[i + p], largest, log_sum);
        const float power = exp_of(alpha * x);
        partial[p] += weighted ? power * x : power;
    }
    return added(partial);
}

}  // namespace arcbeam::transducer
