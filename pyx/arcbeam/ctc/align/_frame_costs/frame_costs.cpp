#include "arcbeam/ctc/align/_frame_costs/frame_costs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace arcbeam::align {

std::vector<Sums> smallest_sums(const std::vector<twin::LogProbs>& batch, const std::uint8_t* reads,
                                const float* star, twin::Acoustic costs) {
    std::vector<Sums> sums;
    sums.reserve(batch.size());
    std::vector<float> barred;
    std::vector<float> own;
    for (const twin::LogProbs& utterance : batch) {
        const std::size_t n = utterance.columns;
        barred.resize(n);
        own.resize(n);
        for (std::size_t column = 0; column < n; ++column) {
            barred[column] = reads[column] != 0 ? 0.0F : std::numeric_limits<float>::infinity();
        }
        Sums sum{0.0, 0.0};
        for (std::uint32_t frame = 0; frame < utterance.frames; ++frame) {
            costs.load(utterance, frame);
            for (std::size_t column = 0; column < n; ++column) {
                own[column] = costs.costs()[column] + barred[column];
            }
            const float smallest = std::min(twin::smallest_of(own.data(), n), costs.smallest() + *star);
            sum.costs += static_cast<double>(smallest);
            sum.magnitudes += std::fabs(static_cast<double>(smallest));
        }
        sums.push_back(sum);
        reads += n;
        ++star;
    }
    return sums;
}

void log_probs_along(const std::vector<twin::LogProbs>& batch, const std::int32_t* columns, float* into) {
    for (const twin::LogProbs& utterance : batch) {
        for (std::uint32_t frame = 0; frame < utterance.frames; ++frame) {
            *into++ = utterance.at(frame, static_cast<std::uint32_t>(*columns++));
        }
    }
}

}  // namespace arcbeam::align
