#include "transducer/engine.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <numeric>
#include <utility>

namespace arcbeam::transducer {

namespace {

constexpr std::size_t kMostMembers = 16;  // of a group: more share the reading of weights no better

}  // namespace

Engine::Engine(const Network& network, const Options& options, std::size_t threads)
    : network_(network), options_(options), groups_(threads), pool_(threads) {}

void Engine::start(std::vector<Utterance> batch) {
    batch_ = std::move(batch);
    results_.assign(batch_.size(), Result{});
    std::vector<std::size_t> order(batch_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
        return batch_[a].input.frames > batch_[b].input.frames;
    });
    const std::size_t needed = round_up(order.size(), kMostMembers) / kMostMembers;
    const std::size_t groups = std::max(needed, std::min(order.size(), groups_.size()));
    members_.assign(groups, {});
    for (std::size_t i = 0; i < order.size(); ++i) {
        members_[i * groups / order.size()].push_back(order[i]);
    }
    cancel_ = false;
    pool_.start(groups, [this](std::size_t worker, std::size_t item) { decode(worker, members_[item]); });
}

bool Engine::wait(int milliseconds) { return pool_.wait(std::chrono::milliseconds(milliseconds)); }

void Engine::decode(std::size_t worker, const std::vector<std::size_t>& members) {
    try {
        if (!groups_[worker]) {
            groups_[worker] = std::make_unique<Group>();
        }
        groups_[worker]->decode(network_, options_, batch_, members, cancel_, results_);
    } catch (const std::exception&) {
        groups_[worker].reset();
        for (const std::size_t member : members) {
            results_[member] = Result{};
            results_[member].outcome = Outcome::kOutOfMemory;
        }
    }
}

}  // namespace arcbeam::transducer
