#include "decode/engine.hpp"

#include <memory>
#include <utility>

namespace arcbeam::twin {

namespace {

constexpr RescoringOptions kAllHypotheses{0};

template <typename SearchLane, typename Graph>
void decode_with(SearchLane& lane, const Graph& graph, const DecodeOptions& options, float lattice_beam,
                 const Utterance& utterance, const std::atomic<bool>& cancel, Result& result) {
    if (utterance.stream != nullptr) {
        lane.decode(graph, options, *utterance.stream, utterance.logp, utterance.last, cancel, result);
    } else {
        lane.decode(graph, options, lattice_beam, utterance.logp, cancel, result);
    }
}

// Without a boost, the utterances of `SearchLane`; with one, and with its new words in the open slot of the graph,
// those of a lane with `Models`.
template <typename SearchLane, typename Models>
class EngineLane final : public AnyLane {
  public:
    EngineLane(const GraphView& graph, std::shared_ptr<const WideStates> wide, const DecodeOptions& options,
               const float& lattice_beam, SearchLane lane, const typename Models::View& lms,
               const RescoringOptions& rescoring)
        : graph_(graph),
          wide_(std::move(wide)),
          options_(options),
          lattice_beam_(lattice_beam),
          lane_(std::move(lane)),
          boosted_(*wide_, lms, rescoring) {}

  private:
    void decode(const Utterance& utterance, const std::atomic<bool>& cancel, Result& result) override {
        if (utterance.boost == nullptr) {
            decode_with(lane_, begun_at(utterance.start), options_, lattice_beam_, utterance, cancel, result);
        } else if (utterance.new_words == nullptr) {
            boosted_.models().boost_with(*utterance.boost);
            decode_with(boosted_, graph_, options_, lattice_beam_, utterance, cancel, result);
        } else {
            const OpenGraph opened(graph_, *utterance.new_words);
            boosted_.models().boost_with(*utterance.boost, opened.first_word);
            decode_with(boosted_, opened, options_, lattice_beam_, utterance, cancel, result);
        }
    }

    [[nodiscard]] GraphView begun_at(std::uint32_t start) const {
        GraphView graph = graph_;
        graph.start = start == kGraphStart ? graph_.start : start;
        return graph;
    }

    const GraphView graph_;
    const std::shared_ptr<const WideStates> wide_;
    const DecodeOptions options_;
    const float& lattice_beam_;
    SearchLane lane_;
    RescoringLane<BoostedModels<Models>> boosted_;
};

template <typename Models>
std::unique_ptr<AnyLane> lane_with(const GraphView& graph, const std::shared_ptr<const WideStates>& wide,
                                   const DecodeOptions& options, const float& lattice_beam,
                                   const typename Models::View& lms, const RescoringOptions& rescoring) {
    return std::make_unique<EngineLane<RescoringLane<Models>, Models>>(
        graph, wide, options, lattice_beam, RescoringLane<Models>(*wide, lms, rescoring), lms, rescoring);
}

std::shared_ptr<const WideStates> wide_of(const GraphView& graph) {
    return std::make_shared<const WideStates>(graph);
}

}  // namespace

Engine::Engine(const GraphView& graph, const DecodeOptions& options, std::size_t threads)
    : BatchEngine(
          [=, wide = wide_of(graph)]() -> std::unique_ptr<AnyLane> {
              return std::make_unique<EngineLane<Lane, NoModels>>(graph, wide, options, lattice_beam_, Lane(*wide),
                                                                  NoModels::View{}, kAllHypotheses);
          },
          threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const RescoringView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : BatchEngine(
          [=, wide = wide_of(graph)] {
              return lane_with<AutomatonModels>(graph, wide, options, lattice_beam_, lms, rescoring);
          },
          threads) {}

Engine::Engine(const GraphView& graph, const DecodeOptions& options, const KenLmView& lms,
               const RescoringOptions& rescoring, std::size_t threads)
    : BatchEngine(
          [=, wide = wide_of(graph)] {
              return lane_with<KenLmModels>(graph, wide, options, lattice_beam_, lms, rescoring);
          },
          threads) {}

}  // namespace arcbeam::twin
