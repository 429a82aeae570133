// The engine of the prefix search: a pool of lanes. They share only the model, which no lane changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "pool/batch_engine.hpp"
#include "prefix/lane.hpp"

namespace arcbeam::prefix {

class LaneOfBatch {
  public:
    explicit LaneOfBatch(const Model& model) : lane_(model) {}

    void decode(const std::vector<Utterance>& batch, const std::vector<std::size_t>& members,
                const std::atomic<bool>& cancel, std::vector<Result>& results) {
        for (const std::size_t member : members) {
            lane_.decode(batch[member], cancel, results[member]);
        }
    }

  private:
    Lane lane_;
};

class Engine final : public twin::BatchEngine<LaneOfBatch, Utterance, Result> {
  public:
    // The model must outlive the engine.
    Engine(const Model& model, std::size_t threads)
        : BatchEngine([&model] { return std::make_unique<LaneOfBatch>(model); }, threads) {}
};

}  // namespace arcbeam::prefix
