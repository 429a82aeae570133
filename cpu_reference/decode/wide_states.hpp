// The states of many arcs, in a form in which the arcs of a column are found without reading the others. It is made
// once for an engine and takes a few percent of the graph's size.
//
//     bits of columns    . . 1 . 1 1 . .   a column that an arc reads
//     bits of pairs      . . . . 1 . . .   a column that two arcs read
//     arcs               2   4,4 5         so the arcs of column 5 begin after those of the bits before it: at 3
//     coarse weights     7   0,9 2         in steps above the smallest weight of the state, rounded down
//
// A row has, in words of 64 bits: [words, 2] the bits of columns and of pairs, then 16 bits for each word, the arcs
// of the words before, then a byte for each arc, and one more. States of which three arcs read one column have no
// row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/clones.hpp"
#include "shared/cost.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

// An arc that may be affordable, and its acoustic cost.
struct FoundArc {
    std::uint32_t arc;  // counted from the state's first emitting one
    float acoustic;
};

constexpr float kCoarseStep = 1.0F / 16.0F;  // cost; 255 steps hold the weights of nearly all arcs

inline float coarse_weight(float smallest_weight, std::uint32_t steps) {
    return smallest_weight + kCoarseStep * static_cast<float>(steps);
}

constexpr std::size_t kColumnsAtOnce = 256;

// Of the arcs that read one of `columns`, at most kColumnsAtOnce, writes those to `found` that cost at most `bound`
// with their coarse weight, and returns how many there are. An arc that is not among them costs more, because
// rounding is monotone. `found` has room for twice `n`.
ARCBEAM_CLONES
[[maybe_unused]] static std::size_t find_arcs(const std::uint64_t* row, std::uint32_t words,
                                              const std::uint16_t* columns, std::size_t n, const float* acoustic,
                                              float cost, float smallest_weight, float bound, FoundArc* found) {
    // Both loops without branches: which columns a state has is hard to predict.
    std::uint16_t there[kColumnsAtOnce];
    std::size_t num_there = 0;
    for (std::size_t i = 0; i < n; ++i) {
        there[num_there] = columns[i];
        num_there += (row[columns[i] / 64U * 2U] >> (columns[i] % 64U)) & 1U;
    }
    const std::uint64_t* const before = row + std::size_t{2} * words;
    const auto* const steps = reinterpret_cast<const unsigned char*>(before + (words + 3U) / 4U);
    std::size_t count = 0;
    for (std::size_t i = 0; i < num_there; ++i) {
        const std::uint32_t word = there[i] / 64U;
        const std::uint32_t bit = there[i] % 64U;
        const std::uint64_t pairs = row[word * 2U + 1U];
        const std::uint64_t below = (std::uint64_t{1} << bit) - 1U;
        const std::uint32_t arc = static_cast<std::uint32_t>((before[word / 4U] >> (word % 4U * 16U)) & 0xffffU) +
                                  static_cast<std::uint32_t>(__builtin_popcountll(row[word * 2U] & below) +
                                                             __builtin_popcountll(pairs & below));
        const float a = acoustic[there[i]];
        found[count] = {arc, a};
        count += extend(cost, a, coarse_weight(smallest_weight, steps[arc])) <= bound ? 1U : 0U;
        found[count] = {arc + 1U, a};
        const std::uint64_t next =
            extend(cost, a, coarse_weight(smallest_weight, steps[arc + 1U])) <= bound ? 1U : 0U;
        count += (pairs >> bit) & next;
    }
    return count;
}

class WideStates {
  public:
    static constexpr std::uint32_t kBlock = 32;  // a state with a row has more arcs

    explicit WideStates(const GraphView& graph) : words_((columns_of(graph) + 63U) / 64U) {
        if (words_ <= 1U) {
            return;  // few columns, so no state has many arcs
        }
        const std::uint32_t most_narrow =
            std::max(kBlock, words_ * 4U);  // a row of fewer arcs would be mostly zeros
        for (std::uint32_t state = 0; state < graph.num_states; ++state) {
            const std::uint32_t begin = graph.states[state].first_emitting;
            const std::uint32_t count = graph.arcs_end(state) - begin;
            if (count > most_narrow && count <= 0xffffU && !has_triple(graph.columns + begin, count)) {
                rows_of_blocks_.resize(graph.num_arcs / kBlock + 1U, kNone);
                rows_of_blocks_[begin / kBlock] = static_cast<std::uint32_t>(rows_.size());
                add_row(graph.columns + begin, graph.targets + begin, count, graph.states[state].smallest_weight);
            }
        }
    }

    [[nodiscard]] std::uint32_t columns() const { return words_ * 64U; }
    [[nodiscard]] std::size_t bytes() const { return rows_.size() * 8U + rows_of_blocks_.size() * 4U; }

    // The row of a state of more than kBlock arcs, of which the first has this id; null if it has none. Two such
    // states never begin in the same block of arcs.
    [[nodiscard]] const std::uint64_t* row(std::uint32_t first_emitting) const {
        const std::size_t block = first_emitting / kBlock;
        const std::uint32_t at = block < rows_of_blocks_.size() ? rows_of_blocks_[block] : kNone;
        return at == kNone ? nullptr : rows_.data() + at;
    }

    [[nodiscard]] std::uint32_t words() const { return words_; }

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;

    static std::uint32_t columns_of(const GraphView& graph) {
        std::uint16_t most = 0;  // columns + 1, which is 0 for epsilon
        for (std::uint32_t arc = 0; arc < graph.num_arcs; ++arc) {
            most = std::max(most, static_cast<std::uint16_t>(graph.columns[arc] + 1U));
        }
        return most;
    }

    static bool has_triple(const std::uint16_t* columns, std::uint32_t count) {
        bool found = false;
        for (std::uint32_t i = 2; i < count; ++i) {
            found |= columns[i] == columns[i - 2U];
        }
        return found;
    }

    void add_row(const std::uint16_t* columns, const ArcTarget* targets, std::uint32_t count,
                 float smallest_weight) {
        const std::size_t first = rows_.size();
        rows_.resize(first + std::size_t{2} * words_ + (words_ + 3U) / 4U + (count + 8U) / 8U, 0U);
        std::uint64_t* const row = rows_.data() + first;
        std::uint64_t* const before = row + std::size_t{2} * words_;
        auto* const steps = reinterpret_cast<unsigned char*>(before + (words_ + 3U) / 4U);
        for (std::uint32_t i = 0; i < count; ++i) {
            const bool is_second = i > 0U && columns[i - 1U] == columns[i];
            row[columns[i] / 64U * 2U + (is_second ? 1U : 0U)] |= std::uint64_t{1} << (columns[i] % 64U);
            const float above = (targets[i].weight - smallest_weight) / kCoarseStep;
            std::uint32_t step = above < 255.0F ? static_cast<std::uint32_t>(above) : 255U;
            while (step > 0U && coarse_weight(smallest_weight, step) > targets[i].weight) {
                --step;
            }
            steps[i] = static_cast<unsigned char>(step);
        }
        std::uint64_t arcs = 0;
        for (std::uint32_t word = 0; word < words_; ++word) {
            before[word / 4U] |= arcs << (word % 4U * 16U);
            arcs += static_cast<std::uint64_t>(__builtin_popcountll(row[word * 2U]) +
                                               __builtin_popcountll(row[word * 2U + 1U]));
        }
    }

    std::uint32_t words_;  // of 64 columns
    std::vector<std::uint64_t> rows_;
    std::vector<std::uint32_t> rows_of_blocks_;  // [blocks of arcs]: the row of the state that begins there
};

}  // namespace arcbeam::twin
