#include "decode/engine.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <numeric>
#include <utility>

namespace arcbeam::twin {

Engine::Engine(const GraphView& graph, const DecodeOptions& options, std::size_t threads)
    : graph_(graph), options_(options), lanes_(threads), pool_(threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const RescoringView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : graph_(graph),
      options_(options),
      rescores_(true),
      lms_(lms),
      rescoring_(rescoring),
      rescoring_lanes_(threads),
      pool_(threads) {}

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
    try {
        decode_on_lane(worker, batch_[utterance], result);
    } catch (const std::exception&) {
        if (rescores_) {
            rescoring_lanes_[worker].reset();
        } else {
            lanes_[worker].reset();
        }
        result = Result{};
        result.outcome = Outcome::kOutOfMemory;
    }
}

void Engine::decode_on_lane(std::size_t worker, const LogProbs& logp, Result& result) {
    if (rescores_) {
        std::unique_ptr<RescoringLane>& lane = rescoring_lanes_[worker];
        if (!lane) {
            lane = std::make_unique<RescoringLane>();
        }
        lane->decode(graph_, lms_, options_, rescoring_, logp, cancel_, result);
        return;
    }
    std::unique_ptr<Lane>& lane = lanes_[worker];
    if (!lane) {
        lane = std::make_unique<Lane>();
    }
    lane->decode(graph_, options_, logp, cancel_, result);
}

}  // namespace arcbeam::twin
