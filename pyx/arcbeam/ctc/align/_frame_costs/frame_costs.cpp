#include "arcbeam/ctc/align/_frame_costs/frame_costs.hpp"

#include <algorithm>
#include <cmath>

namespace arcbeam::align {

std::vector<Sums> smallest_sums(const std::vector<twin::LogProbs>& batch, const std::uint8_t* reads, const float* star,
                                twin::Acoustic costs) {
    std::vector<Sums> sums;
    sums.reserve(batch.size());
    std::vector<std::uint32_t> own;
    for (const twin::LogProbs& utterance : batch) {
        own.clear();
        for (std::uint32_t column = 0; column < utterance.columns; ++column) {
            if (reads[column] != 0) {
                own.push_back(column);
            }
        }
        Sums sum{0.0, 0.0};
        for (std::uint32_t frame = 0; frame < utterance.frames; ++frame) {
            costs.load(utterance, frame);
            float smallest = costs.smallest() + *star;
            for (const std::uint32_t column : own) {
                smallest = std::min(smallest, costs[column]);
            }
            sum.costs += static_cast<double>(smallest);
            sum.magnitudes += std::fabs(static_cast<double>(smallest));
        }
        sums.push_back(sum);
        reads += utterance.columns;
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
