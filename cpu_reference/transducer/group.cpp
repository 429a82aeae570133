#include "transducer/group.hpp"

#include <algorithm>

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
            lane.prediction.last_token = options_->blank;
            lane.window = first_window(*options_);
            (is_first ? first : later).push_back(&lane);
            active_.push_back(&lane);
        }
    }
    predict(first);
    evaluation_.restore(*network_, predictions_of(later));
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
                if (!lane->choose(*options_, evaluation_.logits_of(i), frame, choice)) {
                    continue;
                }
                if (choice.token == options_->blank) {
                    lane->pass_blank(choice);
                } else {
                    lane->write(*options_, choice, evaluation_.logits_of(i));
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
                const float* logits = evaluation_.logits_of(i + static_cast<std::size_t>(lane->frame() - first));
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
    std::vector<Test> tests;
    tests.reserve(tests_.size());
    for (const Tested& tested : tests_) {
        tests.push_back(tested.lane->test_at(tested.frame));
    }
    evaluation_.test(*network_, tests);
}

void Group::predict(const Lanes& lanes) { evaluation_.predict(*network_, predictions_of(lanes)); }

std::vector<Prediction*> Group::predictions_of(const Lanes& lanes) {
    std::vector<Prediction*> found;
    found.reserve(lanes.size());
    for (Lane* lane : lanes) {
        found.push_back(&lane->prediction);
    }
    return found;
}

}  // namespace arcbeam::transducer
