// How a lane goes on from a state, and leaves one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "transducer/aligned.hpp"
#include "transducer/beam/lane.hpp"
#include "transducer/beam/state.hpp"

namespace arcbeam::transducer::beam {

namespace {

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

}  // namespace

void Lane::restore(const BeamState& from) {
    frames_before_ = from.frames;
    offset_ = from.offset;
    labels_before_ = from.labels;
    log_ = from.log;
    tree_.reset(from.histories[0].fused, from.shares);
    for (std::size_t i = 1; i < from.histories.size(); ++i) {
        const BeamState::History& one = from.histories[i];
        tree_.add(one.parent, one.token, one.fused);
    }
    const std::size_t units = network_->units;
    const std::size_t layers = network_->layers.size();
    const std::size_t row = round_up(units, static_cast<std::size_t>(kPartials));
    restored_.clear();
    for (std::size_t i = 0; i < from.predicted.size(); ++i) {
        Prediction& one = *tree_.put_prediction(from.predicted[i], *network_);
        for (std::size_t l = 0; l < layers; ++l) {
            std::copy_n(from.hidden.data() + (i * layers + l) * units, units, one.hidden.data() + l * row);
        }
        std::copy_n(from.cell.data() + i * layers * units, layers * units, one.cell.data());
        std::copy_n(from.contexts.data() + i * one.context.size(), one.context.size(), one.context.data());
        restored_.push_back(&one);
    }
    buckets_.clear();
    for (const BeamState::Arrival& one : from.arrivals) {
        buckets_[one.frame].add({one.node, one.score, one.path, one.log, false, {}}, options_->beam.sums);
    }
}

void Lane::leave(BeamState& state, std::size_t& settled) {
    std::vector<std::uint32_t> nodes;
    for (auto& [frame, bucket] : buckets_) {
        write_labels(bucket.hypotheses);
        for (const Hypothesis& one : bucket.hypotheses) {
            state.arrivals.push_back({frame - frames_, one.node, one.score, one.path, one.log});
            nodes.push_back(one.node);
        }
    }
    state.frames = frames_before_ + frames_;
    state.offset = offset_;
    tree_.keep(nodes);
    leave_histories(nodes, state);
    settled = leave_labels(state);
    state.labels = labels_before_ + static_cast<std::uint32_t>(settled);
}

void Lane::leave_histories(const std::vector<std::uint32_t>& arrived, BeamState& state) const {
    std::vector<std::uint32_t> predicted = tree_.predicted();
    const auto parent_of = [this](std::uint32_t node) { return tree_.parent(node); };
    std::uint32_t first = arrived.front();
    const auto begins_at = [&](std::uint32_t node) { first = common(first, node, PrefixTree::kRoot, parent_of); };
    std::for_each(arrived.begin(), arrived.end(), begins_at);
    std::for_each(predicted.begin(), predicted.end(), begins_at);
    Numbering numbers(tree_.size());
    numbers.add(first);
    for (const std::uint32_t node : arrived) {
        numbers.add_path(node, first, parent_of);
    }
    // The others follow histories that have a number, because only such are kept.
    std::vector<std::uint32_t> others;
    std::copy_if(predicted.begin(), predicted.end(), std::back_inserter(others),
                 [&](std::uint32_t node) { return numbers.of(node) == kNoLabel; });
    std::sort(others.begin(), others.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(numbers.of(tree_.parent(a)), tree_.token(a)) <
               std::pair(numbers.of(tree_.parent(b)), tree_.token(b));
    });
    for (const std::uint32_t node : others) {
        numbers.add(node);
    }
    std::sort(predicted.begin(), predicted.end(),
              [&](std::uint32_t a, std::uint32_t b) { return numbers.of(a) < numbers.of(b); });
    for (const std::uint32_t node : numbers.order()) {
        state.histories.push_back({numbers.of(tree_.parent(node)), tree_.token(node), tree_.fused(node)});
    }
    state.histories[0] = {0U, 0U, Fused{tree_.fused(first).states}};
    add_shares(first, state.shares.data());
    for (BeamState::Arrival& one : state.arrivals) {
        one.node = numbers.of(one.node);
    }
    const std::size_t units = network_->units;
    const std::size_t row = round_up(units, static_cast<std::size_t>(kPartials));
    for (const std::uint32_t node : predicted) {
        const Prediction& one = tree_.tested(node)->prediction;
        state.predicted.push_back(numbers.of(node));
        for (std::size_t l = 0; l < network_->layers.size(); ++l) {
            const float* const from = one.hidden.data() + l * row;
            state.hidden.insert(state.hidden.end(), from, from + units);
        }
        state.cell.insert(state.cell.end(), one.cell.data(), one.cell.data() + one.cell.size());
        state.contexts.insert(state.contexts.end(), one.context.begin(), one.context.end());
    }
}

std::size_t Lane::leave_labels(BeamState& state) const {
    const auto before = [this](std::uint32_t label) { return log_[label].before; };
    std::uint32_t last_settled = state.arrivals.front().log;
    for (const BeamState::Arrival& one : state.arrivals) {
        last_settled = common(last_settled, one.log, kNoLabel, before);
    }
    Numbering numbers(log_.size());
    for (BeamState::Arrival& one : state.arrivals) {
        numbers.add_path(one.log, last_settled, before);
        one.log = one.log == last_settled ? kNoLabel : numbers.of(one.log);
    }
    for (const std::uint32_t at : numbers.order()) {
        Label label = log_[at];
        label.before = label.before == last_settled ? kNoLabel : numbers.of(label.before);
        state.log.push_back(label);
    }
    std::size_t settled = 0;
    for (std::uint32_t at = last_settled; at != kNoLabel; at = before(at)) {
        ++settled;
    }
    return settled;
}

}  // namespace arcbeam::transducer::beam
