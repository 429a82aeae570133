#include "transducer/beam/group.hpp"

namespace arcbeam::transducer::beam {

void Group::decode(const Network& network, const Options& options, const std::vector<Utterance>& utterances,
                   const std::vector<std::size_t>& members, const std::atomic<bool>& cancel,
                   std::vector<Result>& results) {
    while (lanes_.size() < members.size()) {
        lanes_.emplace_back();
    }
    std::vector<Lane*> active;
    std::vector<Prediction*> restored;
    for (std::size_t i = 0; i < members.size(); ++i) {
        lanes_[i].begin(network, options, utterances[members[i]], results[members[i]], inputs_);
        active.push_back(&lanes_[i]);
        restored.insert(restored.end(), lanes_[i].restored().begin(), lanes_[i].restored().end());
    }
    evaluation_.restore(network, restored);
    while (!cancel) {
        std::vector<Lane*> left;
        for (Lane* lane : active) {
            if (lane->is_active()) {
                left.push_back(lane);
            }
        }
        active = left;
        if (active.empty()) {
            break;
        }
        run_networks(network, active);
        for (Lane* lane : active) {
            if (lane->is_active()) {
                lane->advance(inputs_);
            }
        }
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (cancel) {
            results[members[i]].outcome = Outcome::kCancelled;
        }
        lanes_[i].end();
    }
}

void Group::run_networks(const Network& network, const std::vector<Lane*>& active) {
    std::vector<Prediction*> predictions;
    for (Lane* lane : active) {
        lane->request(predictions);
    }
    evaluation_.predict(network, predictions);
    no_encoder_.grow(network.encoder.room_for_outputs());
    std::vector<Test> tests;
    for (const Lane* lane : active) {
        for (const std::uint32_t node : lane->without_biases()) {
            if (lane->needs_ilm()) {
                tests.push_back(lane->ilm_test_of(node, no_encoder_.data()));
            }
        }
        for (const std::uint32_t node : lane->untested()) {
            tests.push_back(lane->test_of(node));
        }
    }
    evaluation_.test(network, tests);
    std::size_t test = 0;
    for (Lane* lane : active) {
        for (const std::uint32_t node : lane->without_biases()) {
            lane->take_biases(node, lane->needs_ilm() ? evaluation_.logits_of(test++) : nullptr);
        }
        for (const std::uint32_t node : lane->untested()) {
            lane->take(node, evaluation_.logits_of(test++));
        }
    }
}

}  // namespace arcbeam::transducer::beam
