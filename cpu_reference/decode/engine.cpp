#include "decode/engine.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <numeric>
#include <utility>

namespace arcbeam::twin {

namespace {

class PlainLane final : public AnyLane {
  public:
    PlainLane(const GraphView& graph, const DecodeOptions& options) : graph_(graph), options_(options) {}
    void decode(const LogProbs& logp, const std::atomic<bool>& cancel, Result& result) override {
        lane_.decode(graph_, options_, logp, cancel, result);
    }

  private:
    const GraphView graph_;
    const DecodeOptions options_;
    Lane lane_;
};

template <typename Models>
class LaneWithModels final : public AnyLane {
  public:
    LaneWithModels(const GraphView& graph, const DecodeOptions& options, const typename Models::View& lms,
                   const RescoringOptions& rescoring)
        : graph_(graph), options_(options), rescoring_(rescoring), lane_(lms) {}
    void decode(const LogProbs& logp, const std::atomic<bool>& cancel, Result& result) override {
        lane_.decode(graph_, options_, rescoring_, logp, cancel, result);
    }

  private:
    const GraphView graph_;
    const DecodeOptions options_;
    const RescoringOptions rescoring_;
    RescoringLane<Models> lane_;
};

}  // namespace

Engine::Engine(MakeLane make_lane, std::size_t threads)
    : make_lane_(std::move(make_lane)), lanes_(threads), pool_(threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, std::size_t threads)
    : Engine([=] { return std::make_unique<PlainLane>(graph, options); }, threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const RescoringView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : Engine([=] { return std::make_unique<LaneWithModels<AutomatonModels>>(graph, options, lms, rescoring); },
             threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const KenLmView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : Engine([=] { return std::make_unique<LaneWithModels<KenLmModels>>(graph, options, lms, rescoring); },
             threads) {}

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
    std::unique_ptr<AnyLane>& lane = lanes_[worker];
    try {
        if (!lane) {
            lane = make_lane_();
        }
        lane->decode(batch_[utterance], cancel_, result);
    } catch (const std::exception&) {
        lane.reset();
        result = Result{};
        result.outcome = Outcome::kOutOfMemory;
    }
}

}  // namespace arcbeam::twin
