// The end of a chunk, on either engine: the state that goes on to the next one, and the n-best list of the sentence
// so far.
//
// in    arrivals by frame, on a frame as they came, with histories and labels in the engine's own numbers;
// histories as
//       a tree, in which parents come before their children; those that keep a prediction; the log of labels
// out   the state, in the numbers of state.hpp; the list
//
// A tree has size(), and of a node parent(), token() and fused(); shares() are those of its root.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "transducer/beam/bucket.hpp"
#include "transducer/beam/ending.hpp"
#include "transducer/beam/fusion.hpp"
#include "transducer/beam/state.hpp"

namespace arcbeam::transducer::beam {

// Numbers the entries of a forest, whose parents come before them, path by path, each from its beginning.
class Numbering {
  public:
    explicit Numbering(std::size_t entries) : numbers_(entries, kNoLabel) {}

    void add(std::uint32_t entry) {
        numbers_[entry] = static_cast<std::uint32_t>(order_.size());
        order_.push_back(entry);
    }

    // Numbers the path down to `last`; `end` is what the first entries of all paths follow, and has no number.
    template <class Parent>
    void add_path(std::uint32_t last, std::uint32_t end, const Parent& parent_of) {
        const auto first = static_cast<std::ptrdiff_t>(order_.size());
        for (std::uint32_t at = last; at != end && numbers_[at] == kNoLabel; at = parent_of(at)) {
            order_.push_back(at);
        }
        std::reverse(order_.begin() + first, order_.end());
        for (auto i = static_cast<std::size_t>(first); i < order_.size(); ++i) {
            numbers_[order_[i]] = static_cast<std::uint32_t>(i);
        }
    }

    [[nodiscard]] std::uint32_t of(std::uint32_t entry) const { return numbers_[entry]; }
    [[nodiscard]] const std::vector<std::uint32_t>& order() const { return order_; }

  private:
    std::vector<std::uint32_t> numbers_;
    std::vector<std::uint32_t> order_;
};

// The last entry that two paths have in common; parents come before their children, and `end` before all.
template <class Parent>
std::uint32_t common(std::uint32_t a, std::uint32_t b, std::uint32_t end, const Parent& parent_of) {
    while (a != b) {
        if (a == end || b == end) {
            return end;
        }
        std::uint32_t& later = a > b ? a : b;
        later = parent_of(later);
    }
    return a;
}

// What each model has added to the score of a history, the internal language model last; if there are models.
template <class Tree>
Shares shares_of(const Tree& tree, std::uint32_t node, bool is_fused) {
    Shares shares = tree.shares();
    std::vector<const Fused*> labels;
    for (; is_fused && node != 0U; node = tree.parent(node)) {
        labels.push_back(&tree.fused(node));
    }
    for (auto one = labels.rbegin(); one != labels.rend(); ++one) {
        for (std::size_t i = 0; i < kFusionModels; ++i) {
            shares[i] += static_cast<double>((*one)->shares[i]);
        }
        shares[kFusionModels] -= static_cast<double>((*one)->ilm_share);
    }
    return shares;
}

// Leaves the histories of a state's arrivals, which get their numbers, and those with a prediction. Gives the
// latter in the order of the state, which has their places in `predicted`.
template <class Tree>
std::vector<std::uint32_t> leave_histories(const Tree& tree, std::vector<std::uint32_t> predicted, bool is_fused,
                                           BeamState& state) {
    const auto parent_of = [&tree](std::uint32_t node) { return tree.parent(node); };
    std::uint32_t first = state.arrivals.front().node;
    const auto begins_at = [&](std::uint32_t node) { first = common(first, node, 0U, parent_of); };
    for (const BeamState::Arrival& one : state.arrivals) {
        begins_at(one.node);
    }
    std::for_each(predicted.begin(), predicted.end(), begins_at);
    Numbering numbers(tree.size());
    numbers.add(first);
    for (BeamState::Arrival& one : state.arrivals) {
        numbers.add_path(one.node, first, parent_of);
        one.node = numbers.of(one.node);
    }
    // The others follow histories that have a number, because only such are kept.
    std::vector<std::uint32_t> others;
    std::copy_if(predicted.begin(), predicted.end(), std::back_inserter(others),
                 [&](std::uint32_t node) { return numbers.of(node) == kNoLabel; });
    std::sort(others.begin(), others.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(numbers.of(tree.parent(a)), tree.token(a)) <
               std::pair(numbers.of(tree.parent(b)), tree.token(b));
    });
    for (const std::uint32_t node : others) {
        numbers.add(node);
    }
    std::sort(predicted.begin(), predicted.end(),
              [&](std::uint32_t a, std::uint32_t b) { return numbers.of(a) < numbers.of(b); });
    state.histories.push_back({0U, 0U, Fused{tree.fused(first).states}});
    for (std::size_t i = 1; i < numbers.order().size(); ++i) {
        const std::uint32_t node = numbers.order()[i];
        state.histories.push_back({numbers.of(tree.parent(node)), tree.token(node), tree.fused(node)});
    }
    state.shares = shares_of(tree, first, is_fused);
    for (const std::uint32_t node : predicted) {
        state.predicted.push_back(numbers.of(node));
    }
    return predicted;
}

// Leaves the labels of a state's arrivals that are not settled, which get their numbers. Gives how many have been
// settled.
inline std::size_t leave_labels(const std::vector<Label>& log, BeamState& state) {
    const auto before = [&log](std::uint32_t label) { return log[label].before; };
    std::uint32_t last_settled = state.arrivals.front().log;
    for (const BeamState::Arrival& one : state.arrivals) {
        last_settled = common(last_settled, one.log, kNoLabel, before);
    }
    Numbering numbers(log.size());
    for (BeamState::Arrival& one : state.arrivals) {
        numbers.add_path(one.log, last_settled, before);
        one.log = one.log == last_settled ? kNoLabel : numbers.of(one.log);
    }
    for (const std::uint32_t at : numbers.order()) {
        Label label = log[at];
        label.before = label.before == last_settled ? kNoLabel : numbers.of(label.before);
        state.log.push_back(label);
    }
    std::size_t settled = 0;
    for (std::uint32_t at = last_settled; at != kNoLabel; at = before(at)) {
        ++settled;
    }
    return settled;
}

// Lists the hypotheses that are live at the end, whose labels are in the log. Gives the place of the best one.
template <class Tree>
std::size_t list_live(const ListOptions& options, double offset, const std::vector<Hypothesis>& live,
                      const Tree& tree, bool is_fused, const std::vector<Label>& log, NBest& list) {
    std::vector<Ended> ended;
    for (const Hypothesis& one : live) {
        ended.push_back({one.score, one.log, shares_of(tree, one.node, is_fused)});
    }
    return list_ended(options, offset, ended, log.data(), list);
}

}  // namespace arcbeam::transducer::beam
