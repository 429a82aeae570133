// Batches of utterances on a pool of lanes, longest first. Workers share the model, which nobody writes, and
// nothing else.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "baseline/lane.hpp"
#include "pool/thread_pool.hpp"

namespace arcbeam::baseline {

class Engine {
  public:
    // What the model points to must outlive the engine.
    Engine(const Model& model, std::size_t threads);

    // Starts a batch. The log-probs must stay until wait() returns true; one batch at a time.
    void start(std::vector<LogProbs> batch);

    // Waits for the batch, at most so long; says whether it is done.
    bool wait(int milliseconds);

    // Asks the batch to end early; wait() must still be called until it returns true.
    void cancel() { cancel_ = true; }

    [[nodiscard]] const std::vector<Result>& results() const { return results_; }

  private:
    void decode(std::size_t worker, std::size_t utterance);

    const Model model_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::vector<LogProbs> batch_;
    std::vector<Result> results_;
    std::vector<std::size_t> order_;
    std::atomic<bool> cancel_{false};
    twin::ThreadPool pool_;  // last, so that its threads end first
};

}  // namespace arcbeam::baseline
