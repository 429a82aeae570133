#include "transducer/group.hpp"

#include <algorithm>
#include <utility>

#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

namespace {

// Number of frames that a lane tests at first. The weights of the output layer are read once for all of them; as
// long as the frames fit a tile, reading costs more than the products do. A TDT's durations skip most blanks.
std::uint32_t first_window(const Options& options) { return options.durations.empty() ? 4U : 2U; }

}  // namespace

void Group::decode(const Network& network, const Options& options, const std::vector<Utterance>& utterances,
                   const std::vector<std::size_t>& members, const std::atomic<bool>& cancel,
                   std::vector<Result>& results) {
    network_ = &network;
    options_ = &options;
    start(utterances, members, results);
    if (options.frame_looping) {
        loop_over_frames(cancel);
    } else {
        loop_over_labels(cancel);
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (cancel) {
            results[members[i]].outcome = Outcome::kCancelled;
        }
        lanes_[i].end();
    }
}

void Group::start(const std::vector<Utterance>& utterances, const std::vector<std::size_t>& members,
                  std::vector<Result>& results) {
    if (lanes_.size() < members.size()) {
        lanes_.resize(members.size());
    }
    StreamState fresh;
    fresh.hidden.assign(network_->layers.size() * network_->units, 0.0F);
    fresh.cell = fresh.hidden;
    if (network_->is_stateless()) {
        fresh.context.assign(network_->context, -1);
    }
    active_.clear();
    Lanes first;
    Lanes later;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const Utterance& utterance = utterances[members[i]];
        Lane& lane = lanes_[i];
        const bool is_first = utterance.from == nullptr;
        fresh.fusion = utterance.fusion_start;
        if (lane.begin(*network_, utterance.input, is_first ? fresh : *utterance.from, utterance.fusion,
                       results[members[i]])) {
            lane.last_token = options_->blank;
            lane.window = first_window(*options_);
            (is_first ? first : later).push_back(&lane);
            active_.push_back(&lane);
        }
    }
    predict(first);
    if (network_->is_stateless()) {
        for (Lane* lane : later) {
            network_->look_up(lane->context.data(), lane->hidden.data());
        }
    }
    project_prediction(later);
}

void Group::loop_over_frames(const std::atomic<bool>& cancel) {
    Lanes here;
    Lanes found;
    while (!cancel) {
        active_.erase(std::remove_if(active_.begin(), active_.end(), [](Lane* lane) { return !lane->is_active(); }),
                      active_.end());
        if (active_.empty()) {
            return;
        }
        const auto earlier = [](const Lane* a, const Lane* b) { return a->frame() < b->frame(); };
        const std::int64_t frame = (*std::min_element(active_.begin(), active_.end(), earlier))->frame();
        here.clear();
        std::copy_if(active_.begin(), active_.end(), std::back_inserter(here),
                     [&](const Lane* lane) { return lane->frame() == frame; });
        while (!here.empty() && !cancel) {
            tests_.clear();
            for (Lane* lane : here) {
                lane->project(inputs_);
                tests_.push_back({lane, frame});
            }
            test();
            found.clear();
            for (std::size_t i = 0; i < tests_.size(); ++i) {
                Lane* lane = tests_[i].lane;
                Choice choice;
                if (!lane->choose(*options_, logits_of(i), frame, choice)) {
                    continue;
                }
                if (choice.token == options_->blank) {
                    lane->pass_blank(choice);
                } else {
                    lane->write(*options_, choice, logits_of(i));
                    found.push_back(lane);
                }
            }
            predict(found);
            here.clear();
            std::copy_if(found.begin(), found.end(), std::back_inserter(here),
                         [&](const Lane* lane) { return lane->is_active() && lane->frame() == frame; });
        }
    }
}

void Group::loop_over_labels(const std::atomic<bool>& cancel) {
    Lanes seeking;
    Lanes found;
    while (!cancel) {
        seeking.clear();
        std::copy_if(active_.begin(), active_.end(), std::back_inserter(seeking),
                     [](const Lane* lane) { return lane->is_active(); });
        if (seeking.empty()) {
            return;
        }
        active_ = seeking;
        find_labels(seeking, found, cancel);
        predict(found);
    }
}

void Group::find_labels(Lanes& seeking, Lanes& found, const std::atomic<bool>& cancel) {
    const std::size_t tile = network_->kernels.tile;
    found.clear();
    while (!seeking.empty() && !cancel) {
        tests_.clear();
        const auto share = static_cast<std::int64_t>(std::max<std::size_t>(tile / seeking.size(), 1));
        for (Lane* lane : seeking) {
            const std::int64_t window = std::min({lane->project(inputs_), share, std::int64_t{lane->window}});
            for (std::int64_t i = 0; i < window; ++i) {
                tests_.push_back({lane, lane->frame() + i});
            }
        }
        test();
        seeking.clear();
        for (std::size_t i = 0; i < tests_.size();) {
            Lane* lane = tests_[i].lane;
            std::size_t end = i;
            while (end < tests_.size() && tests_[end].lane == lane) {
                ++end;
            }
            // A duration may skip frames that were tested in vain.
            const std::int64_t first = tests_[i].frame;
            const auto tested = static_cast<std::int64_t>(end - i);
            bool wrote = false;
            while (!wrote && lane->is_active() && lane->frame() - first < tested) {
                const float* logits = logits_of(i + static_cast<std::size_t>(lane->frame() - first));
                Choice choice;
                if (!lane->choose(*options_, logits, lane->frame(), choice)) {
                    break;
                }
                if (choice.token == options_->blank) {
                    lane->pass_blank(choice);
                } else {
                    lane->write(*options_, choice, logits);
                    wrote = true;
                }
            }
            lane->window = wrote ? first_window(*options_) : static_cast<std::uint32_t>(tile);
            if (wrote) {
                found.push_back(lane);
            } else if (lane->is_active()) {
                seeking.push_back(lane);
            }
            i = end;
        }
    }
}

void Group::test() {
    const Network& network = *network_;
    const std::size_t stride = network.output.room_for_inputs();
    logits_stride_ = network.output.room_for_outputs();
    joint_.grow(tests_.size() * stride);
    logits_.grow(tests_.size() * logits_stride_);
    from_.clear();
    to_.clear();
    for (std::size_t i = 0; i < tests_.size(); ++i) {
        const Lane& lane = *tests_[i].lane;
        float* hidden = joint_.data() + i * stride;
        network.kernels.join(lane.projected(tests_[i].frame), lane.prediction.data(), network.activation,
                             network.output.inputs(), hidden);
        network.round(hidden, network.output.inputs());
        from_.push_back(hidden);
        to_.push_back(logits_.data() + i * logits_stride_);
    }
    network.kernels.multiply(network.output.view(), from_.data(), from_.size(), to_.data());
}

void Group::predict(const Lanes& lanes) {
    if (lanes.empty()) {
        return;
    }
    if (network_->is_stateless()) {
        for (Lane* lane : lanes) {
            std::rotate(lane->context.begin(), lane->context.begin() + 1, lane->context.end());
            lane->context.back() = static_cast<std::int32_t>(lane->last_token);
            network_->look_up(lane->context.data(), lane->hidden.data());
        }
    } else {
        predict_lstm(lanes);
    }
    project_prediction(lanes);
}

void Group::predict_lstm(const Lanes& lanes) {
    const Network& network = *network_;
    const std::size_t row = round_up(network.units, static_cast<std::size_t>(kPartials));
    const std::size_t stride = round_up(4 * network.units, kBlock);
    gates_.grow(lanes.size() * stride);
    recurrent_.grow(lanes.size() * stride);
    const auto multiply = [&](const Matrix& matrix, std::size_t layer, AlignedFloats& y) {
        from_.clear();
        to_.clear();
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            from_.push_back(lanes[i]->hidden.data() + layer * row);
            to_.push_back(y.data() + i * stride);
        }
        network.kernels.multiply(matrix.view(), from_.data(), from_.size(), to_.data());
    };
    for (std::size_t l = 0; l < network.layers.size(); ++l) {
        multiply(network.layers[l].recurrent, l, recurrent_);
        if (l > 0) {
            multiply(network.layers[l].input, l - 1, gates_);
        }
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            const float* input = l > 0 ? gates_.data() + i * stride : network.tables[0].row(lanes[i]->last_token);
            network.kernels.lstm(input, recurrent_.data() + i * stride, network.units,
                                 lanes[i]->cell.data() + l * network.units, lanes[i]->hidden.data() + l * row);
            network.round(lanes[i]->hidden.data() + l * row, network.units);
        }
    }
}

void Group::project_prediction(const Lanes& lanes) {
    const Network& network = *network_;
    const std::size_t row = round_up(network.units, static_cast<std::size_t>(kPartials));
    const std::size_t top = std::max<std::size_t>(network.layers.size(), 1) - 1;
    from_.clear();
    to_.clear();
    for (Lane* lane : lanes) {
        from_.push_back(lane->hidden.data() + top * row);
        to_.push_back(lane->prediction.data());
    }
    network.kernels.multiply(network.prediction.view(), from_.data(), from_.size(), to_.data());
}

}  // namespace arcbeam::transducer
