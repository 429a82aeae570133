#include "baseline/engine.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <numeric>
#include <utility>

namespace arcbeam::baseline {

Engine::Engine(const Model& model, std::size_t threads) : model_(model), lanes_(threads), pool_(threads) {}

void Engine::start(std::vector<LogProbs> batch) {
    batch_ = std::move(batch);
    results_.assign(batch_.size(), Result{});
    order_.resize(batch_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [this](std::size_t a, std::size_t b) { return batch_[a].frames > batch_[b].frames; });
    cancel_ = false;
    pool_.start(batch_.size(), [this](std::size_t worker, std::size_t item) { decode(worker, order_[item]); });
}

bool Engine::wait(int milliseconds) { return pool_.wait(std::chrono::milliseconds(milliseconds)); }

void Engine::decode(std::size_t worker, std::size_t utterance) {
    Result& result = results_[utterance];
    std::unique_ptr<Lane>& lane = lanes_[worker];
    try {
        if (!lane) {
            lane = std::make_unique<Lane>(model_);
        }
        lane->decode(batch_[utterance], cancel_, result);
    } catch (const std::exception&) {
        lane.reset();
        result = Result{};
        result.outcome = Outcome::kOutOfMemory;
    }
}

}  // namespace arcbeam::baseline
