// Batches of utterances on a pool of lanes, longest first.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "decode/lane.hpp"
#include "decode/rescoring_lane.hpp"
#include "pool/thread_pool.hpp"

namespace arcbeam::twin {

// A lane of any kind, which knows its graph and its options.
class AnyLane {
  public:
    AnyLane() = default;
    virtual ~AnyLane() = default;
    AnyLane(const AnyLane&) = delete;
    AnyLane& operator=(const AnyLane&) = delete;
    virtual void decode(const LogProbs& logp, const std::atomic<bool>& cancel, Result& result) = 0;
};

class Engine {
  public:
    // The graph's columns must outlive the engine.
    Engine(const GraphView& graph, const DecodeOptions& options, std::size_t threads);
    // Rescores with language models, which must outlive the engine, too.
    Engine(const GraphView& graph, const DecodeOptions& options, const RescoringView& lms,
           const RescoringOptions& rescoring, std::size_t threads);
    Engine(const GraphView& graph, const DecodeOptions& options, const KenLmView& lms,
           const RescoringOptions& rescoring, std::size_t threads);

    // Starts a batch. The log-probs must stay until wait() returns true; one batch at a time.
    void start(std::vector<LogProbs> batch);

    // Waits for the batch, at most so long; says whether it is done.
    bool wait(int milliseconds);

    // Asks the batch to end early; wait() must still be called until it returns true.
    void cancel() { cancel_ = true; }

    [[nodiscard]] const std::vector<Result>& results() const { return results_; }

  private:
    using MakeLane = std::function<std::unique_ptr<AnyLane>()>;

    Engine(MakeLane make_lane, std::size_t threads);
    void decode(std::size_t worker, std::size_t utterance);

    const MakeLane make_lane_;
    std::vector<std::unique_ptr<AnyLane>> lanes_;  // made by the workers, when they have an utterance
    std::vector<LogProbs> batch_;
    std::vector<Result> results_;
    std::vector<std::size_t> order_;
    std::atomic<bool> cancel_{false};
    ThreadPool pool_;  // last, so that its threads end first
};

}  // namespace arcbeam::twin
