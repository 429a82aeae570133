// The scores of one frame's tokens, and which of them are among the beam_size_token best.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "decode/acoustic.hpp"

namespace arcbeam::baseline {

using twin::LogProbs;

class Emissions {
  public:
    // Reads a frame. False if it holds NaN or +inf, at `bad_column`.
    bool load(const LogProbs& log_probs, std::uint32_t frame, std::uint32_t beam_size_token,
              std::uint32_t& bad_column) {
        const std::uint32_t n = log_probs.columns;
        all_.resize(n);
        const std::int64_t row = static_cast<std::int64_t>(frame) * log_probs.row_stride;
        if (log_probs.is_half) {
            const auto* values = static_cast<const std::uint16_t*>(log_probs.data) + row;
            std::transform(values, values + n, all_.begin(),
                           [](std::uint16_t value) { return half_to_float(value); });
        } else {
            const auto* values = static_cast<const float*>(log_probs.data) + row;
            std::copy(values, values + n, all_.begin());
        }
        const auto bad = std::find_if(all_.begin(), all_.end(), [](float value) {
            return !(value <= std::numeric_limits<float>::max());  // NaN compares false
        });
        if (bad != all_.end()) {
            bad_column = static_cast<std::uint32_t>(bad - all_.begin());
            return false;
        }
        narrow(beam_size_token);
        return true;
    }

    // The score of any token.
    [[nodiscard]] float operator[](std::size_t column) const { return all_[column]; }
    // The same, but -inf for a token that is not among the best.
    [[nodiscard]] const float* narrowed() const { return narrowed_.data(); }
    // The best tokens, best first; of equal ones the smaller column.
    [[nodiscard]] const std::vector<std::uint16_t>& best() const { return best_; }

  private:
    void narrow(std::uint32_t most) {
        const auto precedes = [this](std::uint16_t a, std::uint16_t b) {
            return all_[a] > all_[b] || (!(all_[a] < all_[b]) && a < b);
        };
        best_.clear();
        float last = -std::numeric_limits<float>::infinity();
        if (most < all_.size()) {
            sorted_.assign(all_.begin(), all_.end());
            std::nth_element(sorted_.begin(), sorted_.begin() + (most - 1), sorted_.end(), std::greater<float>());
            last = sorted_[most - 1];
        }
        for (std::size_t column = 0; column < all_.size(); ++column) {
            if (all_[column] >= last) {
                best_.push_back(static_cast<std::uint16_t>(column));
            }
        }
        std::sort(best_.begin(), best_.end(), precedes);
        best_.resize(std::min<std::size_t>(best_.size(), most));
        narrowed_.assign(all_.size(), -std::numeric_limits<float>::infinity());
        for (const std::uint16_t column : best_) {
            narrowed_[column] = all_[column];
        }
    }

    std::vector<float> all_;
    std::vector<float> narrowed_;
    std::vector<float> sorted_;
    std::vector<std::uint16_t> best_;
};

}  // namespace arcbeam::baseline
