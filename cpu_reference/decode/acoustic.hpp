// The acoustic costs of one frame, and its columns in order of cost as far as anyone asks.
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
        sorted_ = 0;
        order_.clear();
    }

    float operator[](std::uint32_t column) const { return costs_[column]; }
    [[nodiscard]] float smallest() const { return smallest_; }
    [[nodiscard]] std::uint32_t columns() const { return static_cast<std::uint32_t>(costs_.size()); }

    // The column of rank `rank` by (cost, column). Most frames ask for a few, so they are sorted in growing runs.
    std::uint32_t ranked(std::uint32_t rank) {
        if (rank >= sorted_) {
            sort_to(rank);
        }
        return packed_arc(order_[rank]);
    }

  private:
    template <typename T, typename Load>
    void score(const T* row, Load to_float) {
        const std::size_t n = costs_.size();
        for (std::size_t c = 0; c < n; ++c) {
            costs_[c] = acoustic_cost(to_float(row[c]), scale_);
        }
    }

    void sort_to(std::uint32_t rank) {
        if (order_.empty()) {
            order_.resize(costs_.size());
            for (std::uint32_t c = 0; c < costs_.size(); ++c) {
                order_[c] = pack(costs_[c], c);
            }
        }
        const std::size_t end =
            std::min(costs_.size(), std::max<std::size_t>(rank + std::size_t{1}, sorted_ * 4 + 16));
        if (end < costs_.size()) {
            std::nth_element(order_.begin() + sorted_, order_.begin() + end, order_.end());
        }
        std::sort(order_.begin() + sorted_, order_.begin() + end);
        sorted_ = end;
    }

    Buffer<float> costs_;
    Buffer<std::uint64_t> order_;
    std::size_t sorted_ = 0;
    float smallest_ = 0.0F;
    float scale_ = 1.0F;
    float blank_penalty_ = 0.0F;
    std::int32_t blank_column_ = -1;
};

}  // namespace arcbeam::twin
