// Checks a few frames of every batch: are they natural logs of probabilities, is the blank in the column that the
// graph expects, and are they so low that no other cost counts\? Only the columns that the graph reads
// are checked, because a model may have others. No result depends on a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arcbeam::input_checks {

// A frame to check, and where it is.
struct Pick {
    std::size_t utterance;
    std::uint32_t frame;
    const unsigned char* row;
    bool is_half;
};

// Possible faults of the input: bits of a set.
enum Finding : std::uint32_t { kAboveZero = 1, kSumsAbove = 2, kSumsBelow = 4, kBlankSeldom = 8, kTooLow = 16 };

// Where a fault was seen last, and its value: the largest value, or the sum of the probabilities.
struct Sight {
    std::size_t utterance = 0;
    std::uint32_t frame = 0;
    double value = 0.0;
};

class InputChecks {
  public:
    // `columns`: number of columns that the graph reads; `blank`: its column, -1 for none; `is_exact`: the model
    // has no other columns.
    InputChecks(std::uint32_t columns, std::int32_t blank, bool is_exact);

    // Chooses frames of a batch, spread over all its utterances, and different ones the next time. It chooses at
    // most `most`, and so few that the checks take little time compared with the decoding. `table`: address, row
    // stride, frames and type of each utterance.
    void pick(const std::int64_t* table, std::size_t utterances, std::size_t most) noexcept;

    [[nodiscard]] const std::vector<Pick>& picks() const { return picks_; }

    // Checks a frame that was picked, in its place or in a copy of its first columns() values.
    void check(const Pick& pick, const void* row);

    // All faults found so far.
    [[nodiscard]] std::uint32_t found() const { return found_; }
    [[nodiscard]] const Sight& sight(Finding of) const;

    [[nodiscard]] std::uint32_t columns() const { return columns_; }
    // The number of recent distinct frames, and for how many of them a column is the best.
    [[nodiscard]] std::uint32_t counted() const { return counted_; }
    [[nodiscard]] std::uint32_t best_in(std::uint32_t column) const { return best_in_[column]; }
    [[nodiscard]] std::uint32_t most_often_best() const { return most_often_best_; }

  private:
    template <typename T>
    void check_frame(const Pick& pick, const T* row);
    bool is_known(std::uint64_t digest);
    void count_best(const Pick& pick, std::uint32_t column);

    std::uint32_t columns_;
    std::int32_t blank_;
    bool is_exact_;
    double phase_ = 0.5;
    std::vector<Pick> picks_;
    std::uint64_t picked_ = 0;
    std::uint32_t found_ = 0;
    Sight above_zero_, sums_above_, sums_below_, blank_seldom_, too_low_;
    std::uint64_t frames_ = 0;  // frames whose sums were computed
    std::uint64_t below_ = 0;   // of these, frames whose sums are too small
    std::uint32_t counted_ = 0;
    std::vector<std::uint32_t> best_in_;
    std::vector<std::uint64_t> digests_;  // of the frames counted; 0: none
    std::uint32_t most_often_best_ = 0;
    std::uint32_t distinct_ = 0;  // number of columns that were the best of some frame
};

}  // namespace arcbeam::input_checks
