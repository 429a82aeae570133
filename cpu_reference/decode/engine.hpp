// The search's engine: a pool of lanes over one graph.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "decode/boosted_models.hpp"
#include "decode/lane.hpp"
#include "decode/rescoring_lane.hpp"
#include "decode/streams/stream.hpp"
#include "pool/batch_engine.hpp"

namespace arcbeam::twin {

constexpr std::uint32_t kGraphStart = 0xFFFFFFFFU;  // the start state of the graph

struct Utterance {
    LogProbs logp;
    std::uint32_t start = kGraphStart;  // the state in which its search begins; another one without a boost only
    // None, unless given; what they point to must outlive the batch, and the stream. New words come with a boost
    // only.
    const BoostView* boost = nullptr;
    const NewWordsView* new_words = nullptr;
    Stream* stream = nullptr;  // if given, `logp` is its next chunk
    bool last = true;          // the stream's last chunk
};

inline std::size_t frames_of(const Utterance& utterance) { return frames_of(utterance.logp); }

// A lane of any kind, with its graph and its options.
class AnyLane {
  public:
    AnyLane() = default;
    virtual ~AnyLane() = default;
    AnyLane(const AnyLane&) = delete;
    AnyLane& operator=(const AnyLane&) = delete;

    void decode(const std::vector<Utterance>& batch, const std::vector<std::size_t>& members,
                const std::atomic<bool>& cancel, std::vector<Result>& results) {
        for (const std::size_t member : members) {
            decode(batch[member], cancel, results[member]);
        }
    }

  private:
    virtual void decode(const Utterance& utterance, const std::atomic<bool>& cancel, Result& result) = 0;
};

class Engine final : public BatchEngine<AnyLane, Utterance, Result> {
  public:
    // As BatchEngine::start. `lattice_beam`: of the requested lattices, or kNoLattice.
    void start(std::vector<Utterance> batch, float lattice_beam) {
        lattice_beam_ = lattice_beam;
        BatchEngine::start(std::move(batch));
    }

    // The graph's columns must outlive the engine.
    Engine(const GraphView& graph, const DecodeOptions& options, std::size_t threads);
    // Rescores with language models, which must outlive the engine, too.
    Engine(const GraphView& graph, const DecodeOptions& options, const RescoringView& lms,
           const RescoringOptions& rescoring, std::size_t threads);
    Engine(const GraphView& graph, const DecodeOptions& options, const KenLmView& lms,
           const RescoringOptions& rescoring, std::size_t threads);

  private:
    float lattice_beam_ = kNoLattice;  // of the batch; its lanes read it
};

}  // namespace arcbeam::twin
