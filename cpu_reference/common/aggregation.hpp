// One confidence of several: of a label's frames, of a word's labels, of a transducer's tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace arcbeam {

enum class Aggregation : std::uint8_t { kMean, kMin, kMax, kProd };

// 0 of none. Sums and products are float64 and go from the first to the last.
inline float aggregated(const float* confidences, std::size_t n, Aggregation aggregation) {
    if (n == 0) {
        return 0.0F;
    }
    if (aggregation == Aggregation::kMin) {
        return *std::min_element(confidences, confidences + n);
    }
    if (aggregation == Aggregation::kMax) {
        return *std::max_element(confidences, confidences + n);
    }
    const bool is_mean = aggregation == Aggregation::kMean;
    double found = is_mean ? 0.0 : 1.0;
    for (std::size_t i = 0; i < n; ++i) {
        found = is_mean ? found + static_cast<double>(confidences[i]) : found * static_cast<double>(confidences[i]);
    }
    return static_cast<float>(is_mean ? found / static_cast<double>(n) : found);
}

}  // namespace arcbeam
