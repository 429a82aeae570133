// The search's engine: a pool of lanes over one graph.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "decode/lane.hpp"
#include "decode/rescoring_lane.hpp"
#include "pool/batch_engine.hpp"

namespace arcbeam::twin {

// A lane of any kind, which knows its graph and its options.
class AnyLane {
  public:
    AnyLane() = default;
    virtual ~AnyLane() = default;
    AnyLane(const AnyLane&) = delete;
    AnyLane& operator=(const AnyLane&) = delete;

    void decode(const std::vector<LogProbs>& batch, const std::vector<std::size_t>& members,
                const std::atomic<bool>& cancel, std::vector<Result>& results) {
        for (const std::size_t member : members) {
            decode(batch[member], cancel, results[member]);
        }
    }

  private:
    virtual void decode(const LogProbs& logp, const std::atomic<bool>& cancel, Result& result) = 0;
};

class Engine final : public BatchEngine<AnyLane, LogProbs, Result> {
  public:
    // The graph's columns must outlive the engine.
    Engine(const GraphView& graph, const DecodeOptions& options, std::size_t threads);
    // Rescores with language models, which must outlive the engine, too.
    Engine(const GraphView& graph, const DecodeOptions& options, const RescoringView& lms,
           const RescoringOptions& rescoring, std::size_t threads);
    Engine(const GraphView& graph, const DecodeOptions& options, const KenLmView& lms,
           const RescoringOptions& rescoring, std::size_t threads);
};

}  // namespace arcbeam::twin
