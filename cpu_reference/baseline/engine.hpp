// The baseline's engine: a pool of lanes. They share only the model, which no lane changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "baseline/lane.hpp"
#include "pool/batch_engine.hpp"

namespace arcbeam::baseline {

class LaneOfBatch {
  public:
    explicit LaneOfBatch(const Model& model) : lane_(model) {}

    void decode(const std::vector<LogProbs>& batch, const std::vector<std::size_t>& members,
                const std::atomic<bool>& cancel, std::vector<Result>& results) {
        for (const std::size_t member : members) {
            lane_.decode(batch[member], cancel, results[member]);
        }
    }

  private:
    Lane lane_;
};

class Engine final : public twin::BatchEngine<LaneOfBatch, LogProbs, Result> {
  public:
    // The data that the model points to must outlive the engine.
    Engine(const Model& model, std::size_t threads)
        : BatchEngine([=] { return std::make_unique<LaneOfBatch>(model); }, threads) {}
};

}  // namespace arcbeam::baseline
