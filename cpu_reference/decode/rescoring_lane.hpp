// A lane with histories: the token's key is (graph state, history). It calls the stages in order, as lane.hpp does.
// `Models` is one of the classes of models.hpp.
#pragma once

#include "decode/lane.hpp"
#include "decode/lookup.hpp"
#include "decode/models.hpp"
#include "decode/rescore.hpp"
#include "decode/rescoring_closure.hpp"
#include "shared/rescoring.hpp"

namespace arcbeam::twin {

// The deviations along a path, summed in float64. If it reached a final state, that of the sentence end is
// included. `lm_context`: the words before the sentence.
template <typename Models>
double path_deviation(const OpenGraph& graph, const typename Models::View& view, const LmContext& lm_context,
                      const std::uint32_t* arcs, std::size_t n, bool reached_final) {
    Models models(view);
    models.begin(0);
    double cost = 0.0;
    History history = models.start(lm_context);
    for (std::size_t i = 0; i < n; ++i) {
        if (graph.words[arcs[i]] != kNoWord) {
            const Deviation deviation = models.add(history, graph.known_word(graph.words[arcs[i]]));
            cost += static_cast<double>(deviation.cost);
            history = deviation.next;
        }
    }
    return reached_final ? cost + static_cast<double>(models.end_deviation(history)) : cost;
}

// Admits candidates: one winner for each (state, history).
template <typename Graph, typename Models, typename Links = NoLinks>
void admit(const Graph& graph, const Models& models, const Buffer<Candidate>& candidates,
           const Buffer<typename Models::Addend>& addends, float bound,
           const SourceHistories<typename Models::History>& sources, RescoringClosure<Models>& closure,
           Hypotheses<Models>& hypotheses, Work& work, Links&& links = Links{}) {
    hypotheses.begin_frame(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (!admits(bound, candidates[i].cost)) {
            continue;
        }
        ++work.admitted;
        const auto added = hypotheses.add(models, candidates[i], addends[i].next, sources);
        links.add(candidates[i], added.slot);
        if (added.is_new_state) {
            closure.enlist(graph, candidates[i].state, added.list);
        }
    }
}

// Ends with what histories add.
template <typename Models, typename Graph>
struct RescoredEnds {
    const Graph& graph;
    const Models& models;
    const Buffer<Token>& tokens;
    const Buffer<typename Models::History>& histories;

    [[nodiscard]] float cost(std::size_t i) const {
        const float cost = extend_epsilon(tokens[i].cost, graph.finals[tokens[i].state]);
        return is_finite(cost) ? models.end(cost, histories[i]) : cost;
    }
    [[nodiscard]] float unfinished(std::size_t i) const { return models.unfinished(tokens[i].cost, histories[i]); }
    [[nodiscard]] bool precedes(std::size_t i, std::size_t j) const {
        return tokens[i].state < tokens[j].state ||
               (tokens[i].state == tokens[j].state && models.precedes(histories[i], histories[j]));
    }
};

template <typename Models>
class RescoringLane : public LaneLoop<RescoringLane<Models>, HistoryState<Models>> {
    using Loop = LaneLoop<RescoringLane<Models>, HistoryState<Models>>;
    using History = typename Models::History;
    friend Loop;

  public:
    RescoringLane(const WideStates& wide, const typename Models::View& view, const RescoringOptions& rescoring)
        : Loop(wide, HistoryState<Models>(Models(view))), rescoring_(rescoring) {}

    // Of the next utterance; a stream begins with a copy.
    [[nodiscard]] Models& models() { return search_.models; }

  private:
    using Loop::acoustic_;
    using Loop::candidates_;
    using Loop::cheap_;
    using Loop::cut_;
    using Loop::keeps_links_;
    using Loop::search_;
    using Loop::wide_;

    template <typename Graph>
    void prepare(const Graph& graph) {
        closure_.begin(graph);
        cache_.begin();
    }

    template <typename Graph>
    void start(const Graph& graph, const DecodeOptions& options, const LmContext& lm_context, Work& work) {
        search_.models.begin(options.collect_above);
        search_.tokens.clear();
        search_.histories.clear();
        addends_.clear();
        addends_.add(Models::keep(search_.models.start(lm_context)));
        commit_frame(graph, beam_bound(0.0F, options.beam), 0, work);
    }

    template <typename Graph>
    [[nodiscard]] RescoredEnds<Models, Graph> ends(const Graph& graph) const {
        return {graph, search_.models, search_.tokens, search_.histories};
    }

    template <typename Graph>
    Step step(const Graph& graph, const DecodeOptions& options, Work& work) {
        cutoff(search_.tokens, options.beam, options.max_active, ends(graph), cut_);
        const auto first_log = search_.log.size() - static_cast<std::uint32_t>(search_.tokens.size());
        const float kept = Expand(graph, wide_, acoustic_, options.beam, cheap_, candidates_, work)(
            search_.tokens, first_log, cut_);
        lookup(graph, search_.models, kept, search_.histories, first_log, cache_, candidates_, addends_, work);
        bool alive;
        const float bound = rescore(addends_, options.beam, candidates_, alive);
        if (!alive) {
            return Step::kDead;
        }
        if (!commit_frame(graph, bound, first_log, work)) {
            return Step::kFull;
        }
        ++work.frames;
        return Step::kAlive;
    }

    // False if there is no room for the frame.
    template <typename Graph>
    bool commit_frame(const Graph& graph, float bound, std::uint32_t first_log_last, Work& work) {
        bool has_room;
        if (keeps_links_) {
            has_room = commit_frame(graph, bound, first_log_last, work, *search_.links);
            if (has_room) {
                const auto place = [this](std::uint32_t slot) { return hypotheses_.place(slot); };
                search_.links->commit(hypotheses_.frontier(), search_.tokens, search_.offset, place, search_.log);
                has_room = search_.links->has_room();
            }
        } else {
            has_room = commit_frame(graph, bound, first_log_last, work, NoLinks{});
        }
        if (has_room && search_.models.collect(search_.histories, [](History& held) -> auto& { return held; })) {
            cache_.begin();
        }
        return has_room;
    }

    // Not inlined, so that the search without links is compiled apart from the one with them.
    template <typename Graph, typename Links>
    [[gnu::noinline]] bool commit_frame(const Graph& graph, float bound, std::uint32_t first_log_last, Work& work,
                                        Links&& links) {
        const SourceHistories<History> sources{search_.histories, first_log_last, search_.log.size()};
        admit(graph, search_.models, candidates_, addends_, bound, sources, closure_, hypotheses_, work, links);
        closure_(graph, search_.models, rescoring_, bound, sources, cache_, hypotheses_, work, links);
        if (!search_.log.has_room(hypotheses_.frontier().size())) {
            return false;
        }
        hypotheses_.compact(search_.log.size());
        search_.histories.resize(hypotheses_.histories().size());
        std::copy(hypotheses_.histories().begin(), hypotheses_.histories().end(), search_.histories.begin());
        search_.offset += static_cast<double>(prune(hypotheses_.frontier(), search_.tokens, search_.log));
        work.tokens += search_.tokens.size();
        return true;
    }

    const RescoringOptions rescoring_;
    Buffer<typename Models::Addend> addends_;  // of the candidates
    LookupCache<Models> cache_;
    Hypotheses<Models> hypotheses_;
    RescoringClosure<Models> closure_;
};

}  // namespace arcbeam::twin
