// The acoustic costs of one frame.
#pragma once

#include <algorithm>
#include <cstdint>

#include "decode/buffer.hpp"
#include "decode/rows.hpp"
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

    // Whether a frame has neither NaN nor +inf, which are errors; -inf means "never".
    [[nodiscard]] bool is_sound(std::uint32_t frame) const {
        const std::int64_t row = static_cast<std::int64_t>(frame) * row_stride;
        return is_half ? twin::is_sound(static_cast<const std::uint16_t*>(data) + row, columns)
                       : twin::is_sound(static_cast<const float*>(data) + row, columns);
    }

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
        const std::size_t n = logp.columns;
        costs_.resize(n);
        const std::int64_t row = static_cast<std::int64_t>(frame) * logp.row_stride;
        if (logp.is_half) {
            widen(static_cast<const std::uint16_t*>(logp.data) + row, n, costs_.begin());
        } else {
            std::copy_n(static_cast<const float*>(logp.data) + row, n, costs_.begin());
        }
        for (float& cost : costs_) {
            cost = acoustic_cost(cost, scale_);
        }
        if (blank_column_ >= 0) {
            float& blank = costs_[static_cast<std::size_t>(blank_column_)];
            blank = penalise(blank, blank_penalty_);
        }
        smallest_ = smallest_of(costs_.begin(), n);
    }

    float operator[](std::uint32_t column) const { return costs_[column]; }
    [[nodiscard]] std::size_t size() const { return costs_.size(); }
    [[nodiscard]] float smallest() const { return smallest_; }
    [[nodiscard]] const float* costs() const { return costs_.begin(); }

  private:
    Buffer<float> costs_;
    float smallest_ = 0.0F;
    float scale_ = 1.0F;
    float blank_penalty_ = 0.0F;
    std::int32_t blank_column_ = -1;
};

}  // namespace arcbeam::twin
