#include "decode/engine.hpp"

#include <memory>
#include <utility>

namespace arcbeam::twin {

namespace {

constexpr RescoringOptions kAllHypotheses{0};

template <typename Models, typename Graph>
void decode_with(RescoringLane<Models>& lane, const Graph& graph, const DecodeOptions& options,
                 const RescoringOptions& rescoring, float lattice_beam, const Utterance& utterance,
                 const std::atomic<bool>& cancel, Result& result) {
    if (utterance.stream != nullptr) {
        lane.decode(graph, options, rescoring, *utterance.stream, utterance.logp, utterance.last, cancel, result);
    } else {
        lane.decode(graph, options, rescoring, lattice_beam, utterance.logp, cancel, result);
    }
}

// An utterance with a boost, and with its new words in the open slot of the graph.
template <typename Models>
void decode_boosted(RescoringLane<BoostedModels<Models>>& lane, const GraphView& graph,
                    const DecodeOptions& options, const RescoringOptions& rescoring, float lattice_beam,
                    const Utterance& utterance, const std::atomic<bool>& cancel, Result& result) {
    if (utterance.new_words == nullptr) {
        lane.models().boost_with(*utterance.boost);
        decode_with(lane, graph, options, rescoring, lattice_beam, utterance, cancel, result);
        return;
    }
    const OpenGraph opened(graph, *utterance.new_words);
    lane.models().boost_with(*utterance.boost, opened.first_word);
    decode_with(lane, opened, options, rescoring, lattice_beam, utterance, cancel, result);
}

class PlainLane final : public AnyLane {
  public:
    PlainLane(const GraphView& graph, std::shared_ptr<const WideStates> wide, const DecodeOptions& options,
              const float& lattice_beam)
        : graph_(graph), wide_(std::move(wide)), options_(options), lattice_beam_(lattice_beam) {}

  private:
    void decode(const Utterance& utterance, const std::atomic<bool>& cancel, Result& result) override {
        if (utterance.boost != nullptr) {
            decode_boosted(boosted_, graph_, options_, kAllHypotheses, lattice_beam_, utterance, cancel, result);
        } else if (utterance.stream != nullptr) {
            lane_.decode(graph_, options_, *utterance.stream, utterance.logp, utterance.last, cancel, result);
        } else {
            lane_.decode(graph_, options_, lattice_beam_, utterance.logp, cancel, result);
        }
    }

    const GraphView graph_;
    const std::shared_ptr<const WideStates> wide_;
    const DecodeOptions options_;
    const float& lattice_beam_;
    Lane lane_{*wide_};
    RescoringLane<BoostedModels<NoModels>> boosted_{*wide_, NoModels::View{}};
};

template <typename Models>
class LaneWithModels final : public AnyLane {
  public:
    LaneWithModels(const GraphView& graph, std::shared_ptr<const WideStates> wide, const DecodeOptions& options,
                   const typename Models::View& lms, const RescoringOptions& rescoring, const float& lattice_beam)
        : graph_(graph),
          wide_(std::move(wide)),
          options_(options),
          rescoring_(rescoring),
          lattice_beam_(lattice_beam),
          lane_(*wide_, lms),
          boosted_(*wide_, lms) {}

  private:
    void decode(const Utterance& utterance, const std::atomic<bool>& cancel, Result& result) override {
        if (utterance.boost != nullptr) {
            decode_boosted(boosted_, graph_, options_, rescoring_, lattice_beam_, utterance, cancel, result);
        } else {
            decode_with(lane_, graph_, options_, rescoring_, lattice_beam_, utterance, cancel, result);
        }
    }

    const GraphView graph_;
    const std::shared_ptr<const WideStates> wide_;
    const DecodeOptions options_;
    const RescoringOptions rescoring_;
    const float& lattice_beam_;
    RescoringLane<Models> lane_;
    RescoringLane<BoostedModels<Models>> boosted_;
};

}  // namespace

Engine::Engine(const GraphView& graph, const DecodeOptions& options, std::size_t threads)
    : BatchEngine([=, wide = std::make_shared<const WideStates>(
                          graph)] { return std::make_unique<PlainLane>(graph, wide, options, lattice_beam_); },
                  threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const RescoringView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : BatchEngine(
          [=, wide = std::make_shared<const WideStates>(graph)] {
              return std::make_unique<LaneWithModels<AutomatonModels>>(graph, wide, options, lms, rescoring,
                                                                       lattice_beam_);
          },
          threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const KenLmView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : BatchEngine(
          [=, wide = std::make_shared<const WideStates>(graph)] {
              return std::make_unique<LaneWithModels<KenLmModels>>(graph, wide, options, lms, rescoring,
                                                                   lattice_beam_);
          },
          threads) {}

}  // namespace arcbeam::twin
