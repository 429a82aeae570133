// First arcs and back-off states as shared/lm_view.hpp keeps them: in blocks of 32 states.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shared/lm_view.hpp"

namespace arcbeam::arpa {

// The numbers of the block that is being filled.
class Block {
  public:
    [[nodiscard]] bool is_empty() const { return size_ == 0; }
    [[nodiscard]] bool is_full() const { return size_ == values_.size(); }
    void add(std::uint32_t value) { values_[size_++] = value; }

    // Its first number, or its place in the separate table, to which its numbers are added. The block is empty
    // afterwards.
    std::uint32_t close(bool is_wide, std::vector<std::uint32_t>& wide) {
        const auto place = static_cast<std::uint32_t>(wide.size());
        if (is_wide) wide.insert(wide.end(), values_.begin(), values_.begin() + size_);
        if (is_wide) wide.resize(place + values_.size(), values_[size_ - 1]);
        size_ = 0;
        return is_wide ? kLmWideBlock | place : values_[0];
    }

    [[nodiscard]] const std::uint32_t* begin() const { return values_.data(); }
    [[nodiscard]] const std::uint32_t* end() const { return values_.data() + size_; }

  private:
    std::array<std::uint32_t, 1U << kLmBlockBits> values_{};
    std::uint32_t size_ = 0;
};

class FirstArcs {
  public:
    void add(std::uint32_t first) {
        block_.add(first);
        if (block_.is_full()) close_block();
    }

    // Called after the end of the last state's arcs has been added.
    void finish() {
        if (!block_.is_empty()) close_block();
    }

    std::vector<std::uint8_t> offsets;
    std::vector<std::uint32_t> bases;
    std::vector<std::uint32_t> wide;

  private:
    void close_block() {
        const bool is_wide = block_.end()[-1] - *block_.begin() > kLmMostOffset;
        for (const std::uint32_t first : block_)
            offsets.push_back(is_wide ? std::uint8_t{0} : static_cast<std::uint8_t>(first - *block_.begin()));
        bases.push_back(block_.close(is_wide, wide));
    }

    Block block_;
};

class BackoffStates {
  public:
    void add(std::uint32_t state) {
        block_.add(state);
        if (block_.is_full()) close_block();
    }

    void finish() {
        if (!block_.is_empty()) close_block();
    }

    std::vector<std::uint64_t> steps;
    std::vector<std::uint32_t> bases;
    std::vector<std::uint32_t> wide;

  private:
    void close_block() {
        std::uint64_t packed = 0;
        bool is_wide = false;  // also where a length begins, because back-off states start again there
        for (const std::uint32_t* state = block_.begin() + 1; state < block_.end(); ++state) {
            const std::uint32_t step = state[0] - state[-1];
            is_wide |= step > kLmMostStep;
            packed |= static_cast<std::uint64_t>(step & kLmMostStep) << (2 * (state - block_.begin()));
        }
        steps.push_back(is_wide ? 0 : packed);
        bases.push_back(block_.close(is_wide, wide));
    }

    Block block_;
};

}  // namespace arcbeam::arpa
