#include "decode/engine.hpp"

#include <memory>

namespace arcbeam::twin {

namespace {

class PlainLane final : public AnyLane {
  public:
    PlainLane(const GraphView& graph, const DecodeOptions& options) : graph_(graph), options_(options) {}

  private:
    void decode(const LogProbs& logp, const std::atomic<bool>& cancel, Result& result) override {
        lane_.decode(graph_, options_, logp, cancel, result);
    }

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

  private:
    void decode(const LogProbs& logp, const std::atomic<bool>& cancel, Result& result) override {
        lane_.decode(graph_, options_, rescoring_, logp, cancel, result);
    }

    const GraphView graph_;
    const DecodeOptions options_;
    const RescoringOptions rescoring_;
    RescoringLane<Models> lane_;
};

}  // namespace

Engine::Engine(const GraphView& graph, const DecodeOptions& options, std::size_t threads)
    : BatchEngine([=] { return std::make_unique<PlainLane>(graph, options); }, threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const RescoringView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : BatchEngine([=] { return std::make_unique<LaneWithModels<AutomatonModels>>(graph, options, lms, rescoring); },
                  threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const KenLmView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : BatchEngine([=] { return std::make_unique<LaneWithModels<KenLmModels>>(graph, options, lms, rescoring); },
                  threads) {}

}  // namespace arcbeam::twin
