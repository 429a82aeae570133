// The acoustic costs of one frame.
#pragma once

#include <algorithm>
#include <cstdint>

#include "decode/buffer.hpp"
#include "shared/cost.hpp"
#include "shared/half.hpp"

namespace arcbeam::twin {

// Log-probs of one utterance: rows of `columns` contiguous values, `row_stride` values apart.
struct LogProbs {
    const void* data;
    std::int64_t row_stride;
    std::uint32_t frames;
    std::uint32_t columns;
    bool is_half;

    [[nodiscard]] float at(std::uint32_t frame, std::uint32_t column) const {
        const std::int64_t i = static_cast<std::int64_t>(frame) * row_stride + column;
        return is_half ? half_to_float(static_cast<const std::uint16_t*>(data)[i])
                       : static_cast<const float*>(data)[i];
    }
};

inline std::uint32_t frames_of(const LogProbs& logp) { return logp.frames; }

class Acoustic {
  public:
    void begin(float scale, float blank_penalty, std::int32_t blank_column) {
        scale_ = scale;
        blank_penalty_ = blank_penalty;
        blank_column_ = blank_column;
    }

    void load(const LogProbs& logp, std::uint32_t frame) {
        costs_.resize(logp.columns);
        const std::int64_t row = static_cast<std::int64_t>(frame) * logp.row_stride;
        if (logp.is_half) {
            score(static_cast<const std::uint16_t*>(logp.data) + row, half_to_float);
        } else {
            score(static_cast<const float*>(logp.data) + row, [](float value) { return value; });
        }
        if (blank_column_ >= 0) {
            float& blank = costs_[static_cast<std::size_t>(blank_column_)];
            blank = penalise(blank, blank_penalty_);
        }
        smallest_ = *std::min_element(costs_.begin(), costs_.end());
    }

    float operator[](std::uint32_t column) const { return costs_[column]; }
    [[nodiscard]] float smallest() const { return smallest_; }
    [[nodiscard]] const float* costs() const { return costs_.begin(); }

  private:
    template <typename T, typename Load>
    void score(const T* row, Load to_float) {
        const std::size_t n = costs_.size();
        for (std::size_t c = 0; c < n; ++c) {
            costs_[c] = acoustic_cost(to_float(row[c]), scale_);
        }
    }

    Buffer<float> costs_;
    float smallest_ = 0.0F;
    float scale_ = 1.0F;
    float blank_penalty_ = 0.0F;
    std::int32_t blank_column_ = -1;
};

}  // namespace arcbeam::twin
