// The columns of a frame that a token can afford at all, by levels of their cost.
//
// Level k has the columns that cost less than `limits[k]` and are in no level before; most columns of a frame cost
// more than all limits and are in none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/clones.hpp"
#include "decode/buffer.hpp"
#include "shared/cost.hpp"

namespace arcbeam::twin {

// Writes the positions of costs below the limit to `found`, which has room for n + 8, and returns how many.
ARCBEAM_CLONES
[[maybe_unused]] static std::size_t costs_below(const float* costs, std::size_t n, float limit,
                                                std::uint16_t* found) {
    constexpr std::size_t kRun = 64;
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < n; begin += kRun) {
        std::uint8_t is_below[kRun] = {};
        const std::size_t run = n - begin < kRun ? n - begin : kRun;
        for (std::size_t i = 0; i < run; ++i) {
            is_below[i] = costs[begin + i] < limit ? 1 : 0;
        }
        for (std::size_t i = 0; i < run; i += 8) {
            std::uint64_t eight;
            std::memcpy(&eight, is_below + i, sizeof eight);
            for (std::size_t j = i; eight != 0; ++j, eight >>= 8U) {
                found[count] = static_cast<std::uint16_t>(begin + j);
                count += eight & 1U;
            }
        }
    }
    return count;
}

class CheapColumns {
  public:
    static constexpr std::size_t kAll = ~std::size_t{0};

    // Of the `n` acoustic costs, `smallest` is the least. `beam` sets how far the levels reach, and no answer.
    void sort(const float* acoustic, std::size_t n, float smallest, float beam) {
        const float step = beam * (1.25F / kLevels);
        smallest_ = smallest;
        per_level_ = 1.0F / step;
        for (int level = 0; level < kLevels; ++level) {
            limits_[level] = smallest + step * static_cast<float>(level + 1);
            ends_[level] = 0;
        }
        found_.resize(n + 8U);
        columns_.resize(n);
        levels_.resize(n);
        const std::size_t count = costs_below(acoustic, n, limits_[kLevels - 1], found_.begin());
        for (std::size_t i = 0; i < count; ++i) {
            const float cost = acoustic[found_[i]];
            const float guess = (cost - smallest_) * per_level_;
            int level = guess < kLevels - 1 ? static_cast<int>(guess) : kLevels - 1;
            while (level > 0 && cost < limits_[level - 1]) {  // a level too low does no harm
                --level;
            }
            levels_[i] = static_cast<std::uint8_t>(level);
            ++ends_[level];
        }
        std::uint32_t begin = 0;
        for (std::uint32_t& end : ends_) {
            const std::uint32_t in_level = end;
            end = begin;
            begin += in_level;
        }
        for (std::size_t i = 0; i < count; ++i) {
            columns_[ends_[levels_[i]]++] = found_[i];
        }
    }

    [[nodiscard]] const std::uint16_t* columns() const { return columns_.begin(); }

    // How many of the first columns() have all that satisfy ((cost + acoustic) + weight) <= bound; kAll if columns
    // may that are not there. The limit itself is above the bound, and rounding is monotone, so this is exact.
    [[nodiscard]] std::size_t affordable(float cost, float weight, float bound) const {
        const float guess = (bound - cost - weight - smallest_) * per_level_;
        int level = 0;
        if (!(guess <= 0.0F)) {
            level = guess < kLevels ? static_cast<int>(guess) : kLevels;
        }
        while (level < kLevels && extend(cost, limits_[level], weight) <= bound) {
            ++level;
        }
        return level < kLevels ? ends_[level] : kAll;
    }

  private:
    static constexpr int kLevels = 32;

    float smallest_ = 0.0F;
    float per_level_ = 0.0F;
    float limits_[kLevels] = {};
    std::uint32_t ends_[kLevels] = {};  // of the levels, in columns_
    Buffer<std::uint16_t> columns_;
    Buffer<std::uint16_t> found_;
    Buffer<std::uint8_t> levels_;  // of found_
};

}  // namespace arcbeam::twin
