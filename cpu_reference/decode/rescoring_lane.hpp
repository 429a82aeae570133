// A lane with histories: the token's key is (graph state, history). It calls the stages in order, as lane.hpp does.
// `Models` is one of the classes of models.hpp.
#pragma once

#include <atomic>

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
class RescoringLane {
  public:
    // The wide states are those of the graph; they must outlive the lane.
    RescoringLane(const WideStates& wide, const typename Models::View& view) : wide_(wide), search_(Models(view)) {}

    // Of the next utterance; a stream begins with a copy.
    [[nodiscard]] Models& models() { return search_.models; }

    // `graph` is a GraphView, or an OpenGraph with the new words of the utterance.
    template <typename Graph>
    void decode(const Graph& graph, const DecodeOptions& options, const RescoringOptions& rescoring,
                float lattice_beam, const LogProbs& logp, const std::atomic<bool>& cancel, Result& result) {
        result = Result{};
        if (!Lane::check(logp, result)) {
            return;
        }
        prepare(graph, options, lattice_beam);
        begin(graph, options, rescoring, LmContext{}, lattice_beam, options.collect_above, result.work);
        bool alive = true;
        NoWatch watch;
        if (!run(graph, options, rescoring, logp, cancel, watch, alive, result)) {
            return;
        }
        const RescoredEnds<Models, Graph> ends{graph, search_.models, search_.tokens, search_.histories};
        const End end = best_end(ends, search_.tokens, alive);
        result.path = backtrack(end, search_.tokens, search_.log, search_.offset, alive);
        if (keeps_links_) {
            result.lattice = search_.links->finish(graph, ends, search_.tokens, end, result.path, search_.log);
        }
        result.outcome = Outcome::kDecoded;
    }

    // As the function of this form in lane.hpp.
    template <typename Graph>
    void decode(const Graph& graph, const DecodeOptions& options, const RescoringOptions& rescoring, Stream& stream,
                const LogProbs& chunk, bool last, const std::atomic<bool>& cancel, Result& result) {
        result = Result{};
        if (!Lane::check(chunk, result)) {
            return;
        }
        if (stream.has_given_lattice()) {
            result.outcome = Outcome::kDecoded;
            return;
        }
        const bool begins = !stream.has_begun();
        Stream::Loan loan(stream, search_);
        prepare(graph, options, stream.lattice_beam);
        if (loan.saved() != nullptr) {
            loan.resume(graph, options.collect_above);
        } else if (begins) {
            begin(graph, options, rescoring, stream.lm_context, stream.lattice_beam,
                  stream.links_above(options.collect_above), result.work);
        }
        bool alive = stream.is_alive();
        if (!run(graph, options, rescoring, chunk, cancel, stream.watch, alive, result)) {
            return;
        }
        loan.take_settled(graph);
        const bool ends_here = last || stream.watch.has_fired();
        const RescoredEnds<Models, Graph> ends{graph, search_.models, search_.tokens, search_.histories};
        const End end = best_end(ends, search_.tokens, alive && ends_here);
        result.path = backtrack(end, search_.tokens, search_.log, search_.offset, alive, search_.settled());
        if (keeps_links_ && (ends_here || stream.shows_lattice)) {
            result.lattice = loan.lattice(graph, ends, end, result.path, ends_here);
        }
        result.outcome = Outcome::kDecoded;
        loan.done(alive, result.frames);
    }

  private:
    using History = typename Models::History;
    enum class Step : std::uint8_t { kAlive, kDead, kFull };

    template <typename Graph>
    void prepare(const Graph& graph, const DecodeOptions& options, float lattice_beam) {
        keeps_links_ = lattice_beam >= 0.0F;
        acoustic_.begin(options.acoustic_scale, options.blank_penalty, options.blank_column);
        closure_.begin(graph);
        cache_.begin();
    }

    template <typename Graph>
    void begin(const Graph& graph, const DecodeOptions& options, const RescoringOptions& rescoring,
               const LmContext& lm_context, float lattice_beam, std::uint32_t links_above, Work& work) {
        search_.begin(lattice_beam, options.collect_above, links_above);
        search_.models.begin(options.collect_above);
        search_.tokens.clear();
        search_.histories.clear();
        candidates_.clear();
        candidates_.add({0.0F, kNoArc, graph.start, kNoSource});
        addends_.clear();
        addends_.add(Models::keep(search_.models.start(lm_context)));
        settle(graph, rescoring, beam_bound(0.0F, options.beam), 0, work);
    }

    // Decodes frames as long as the search is `alive` and the sentence goes on; false if it had to be given up.
    template <typename Graph, typename Watch>
    bool run(const Graph& graph, const DecodeOptions& options, const RescoringOptions& rescoring,
             const LogProbs& logp, const std::atomic<bool>& cancel, Watch& watch, bool& alive, Result& result) {
        bool goes_on = !watch.has_fired();
        result.frames = goes_on ? logp.frames : 0U;
        for (std::uint32_t frame = 0; frame < logp.frames && goes_on && (alive || watch.counts_frames()); ++frame) {
            if (cancel.load(std::memory_order_relaxed)) {
                result.outcome = Outcome::kCancelled;
                return false;
            }
            if (alive) {
                acoustic_.load(logp, frame);
                const Step taken = step(graph, options, rescoring, result.work);
                if (taken == Step::kFull) {
                    result.outcome = Outcome::kCapacity;
                    return false;
                }
                alive = taken == Step::kAlive;
            }
            const RescoredEnds<Models, Graph> ends{graph, search_.models, search_.tokens, search_.histories};
            if (watch.ends_at(graph, ends, search_.tokens, search_.log, search_.settled(), alive)) {
                result.frames = frame + 1U;
                goes_on = false;
            }
        }
        return true;
    }

    // Decodes one frame. If it admits nothing, everything is as after the frame before.
    template <typename Graph>
    Step step(const Graph& graph, const DecodeOptions& options, const RescoringOptions& rescoring, Work& work) {
        const RescoredEnds<Models, Graph> order{graph, search_.models, search_.tokens, search_.histories};
        cutoff(search_.tokens, options.beam, options.max_active, order, cut_);
        const auto first_log = search_.log.size() - static_cast<std::uint32_t>(search_.tokens.size());
        const float kept = Expand(graph, wide_, acoustic_, options.beam, cheap_, candidates_, work)(
            search_.tokens, first_log, cut_);
        lookup(graph, search_.models, kept, search_.histories, first_log, cache_, candidates_, addends_, work);
        bool alive;
        const float bound = rescore(addends_, options.beam, candidates_, alive);
        if (!alive) {
            return Step::kDead;
        }
        if (!settle(graph, rescoring, bound, first_log, work)) {
            return Step::kFull;
        }
        ++work.frames;
        return Step::kAlive;
    }

    // False if there is no room for the frame.
    template <typename Graph>
    bool settle(const Graph& graph, const RescoringOptions& rescoring, float bound, std::uint32_t first_log_last,
                Work& work) {
        bool has_room;
        if (keeps_links_) {
            has_room = settle(graph, rescoring, bound, first_log_last, work, *search_.links);
            if (has_room) {
                const auto place = [this](std::uint32_t slot) { return hypotheses_.place(slot); };
                search_.links->commit(hypotheses_.frontier(), search_.tokens, search_.offset, place, search_.log);
                has_room = search_.links->has_room();
            }
        } else {
            has_room = settle(graph, rescoring, bound, first_log_last, work, NoLinks{});
        }
        if (has_room && search_.models.collect(search_.histories, [](History& held) -> auto& { return held; })) {
            cache_.begin();
        }
        return has_room;
    }

    // Not inlined, so that the search without links is compiled apart from the one with them.
    template <typename Graph, typename Links>
    [[gnu::noinline]] bool settle(const Graph& graph, const RescoringOptions& rescoring, float bound,
                                  std::uint32_t first_log_last, Work& work, Links&& links) {
        const SourceHistories<History> sources{search_.histories, first_log_last, search_.log.size()};
        admit(graph, search_.models, candidates_, addends_, bound, sources, closure_, hypotheses_, work, links);
        closure_(graph, search_.models, rescoring, bound, sources, cache_, hypotheses_, work, links);
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

    const WideStates& wide_;
    HistoryState<Models> search_;
    Acoustic acoustic_;
    CheapColumns cheap_;
    Buffer<Candidate> candidates_;
    Buffer<typename Models::Addend> addends_;  // of the candidates
    Cutoff cut_;
    LookupCache<Models> cache_;
    Hypotheses<Models> hypotheses_;
    RescoringClosure<Models> closure_;
    bool keeps_links_ = false;
};

}  // namespace arcbeam::twin
