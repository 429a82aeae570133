// How a lane goes on from a state, and leaves one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transducer/aligned.hpp"
#include "transducer/beam/chunk_end.hpp"
#include "transducer/beam/lane.hpp"
#include "transducer/beam/state.hpp"

namespace arcbeam::transducer::beam {

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
    const std::size_t units = network_->units;
    const std::size_t row = round_up(units, static_cast<std::size_t>(kPartials));
    for (const std::uint32_t node : leave_histories(tree_, tree_.predicted(), fusion_.is_active(), state)) {
        const Prediction& one = tree_.tested(node)->prediction;
        for (std::size_t l = 0; l < network_->layers.size(); ++l) {
            const float* const from = one.hidden.data() + l * row;
            state.hidden.insert(state.hidden.end(), from, from + units);
        }
        state.cell.insert(state.cell.end(), one.cell.data(), one.cell.data() + one.cell.size());
        state.contexts.insert(state.contexts.end(), one.context.begin(), one.context.end());
    }
    settled = leave_labels(log_, state);
    state.labels = labels_before_ + static_cast<std::uint32_t>(settled);
}

}  // namespace arcbeam::transducer::beam
