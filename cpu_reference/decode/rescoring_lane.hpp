// A lane that rescores: the token's key is (graph state, history). It calls the stages in order, as lane.hpp does.
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
// included.
template <typename Models>
double path_deviation(const GraphView& graph, const typename Models::View& view, const std::uint32_t* arcs,
                      std::size_t n, bool reached_final) {
    Models models(view);
    models.begin(0);
    double cost = 0.0;
    History history = models.start();
    for (std::size_t i = 0; i < n; ++i) {
        if (graph.words[arcs[i]] != kNoWord) {
            const Deviation deviation = models.deviate(history, graph.words[arcs[i]]);
            cost += static_cast<double>(deviation.cost);
            history = deviation.next;
        }
    }
    return reached_final ? cost + static_cast<double>(models.end_deviation(history)) : cost;
}

// Admits candidates: one winner for each (state, history).
template <typename Models>
void admit(const GraphView& graph, const Models& models, const Buffer<Candidate>& candidates,
           const Buffer<Deviation>& deviations, float bound, const SourceHistories& sources,
           RescoringClosure& closure, Hypotheses& hypotheses, Work& work) {
    hypotheses.begin_frame(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (!admits(bound, candidates[i].cost)) {
            continue;
        }
        ++work.admitted;
        bool is_new_state;
        const std::uint32_t list = hypotheses.add(models, candidates[i], deviations[i].next, sources, is_new_state);
        if (is_new_state) {
            closure.enlist(graph, candidates[i].state, list);
        }
    }
}

// The best token, with the end of the sentence rescored, and its path.
template <typename Models>
Path end(const GraphView& graph, const Models& models, const Buffer<Token>& tokens,
         const Buffer<History>& histories, const TokenLog& log, double offset, bool alive) {
    const auto end_cost = [&](std::size_t i) {
        const float cost = extend_epsilon(tokens[i].cost, graph.finals[tokens[i].state]);
        return is_finite(cost) ? rescore_cost(cost, models.end_deviation(histories[i])) : cost;
    };
    const auto precedes = [&](std::size_t i, std::size_t j) {
        return tokens[i].state < tokens[j].state ||
               (tokens[i].state == tokens[j].state && models.precedes(histories[i], histories[j]));
    };
    return backtrack(tokens, log, offset, alive, end_cost, precedes);
}

template <typename Models>
class RescoringLane {
  public:
    explicit RescoringLane(const typename Models::View& view) : models_(view) {}

    void decode(const GraphView& graph, const DecodeOptions& options, const RescoringOptions& rescoring,
                const LogProbs& logp, const std::atomic<bool>& cancel, Result& result) {
        result = Result{};
        if (!Lane::check(logp, result)) {
            return;
        }
        begin(graph, options, rescoring, result.work);
        Step last = Step::kAlive;
        for (std::uint32_t frame = 0; frame < logp.frames && last == Step::kAlive; ++frame) {
            if (cancel.load(std::memory_order_relaxed)) {
                result.outcome = Outcome::kCancelled;
                return;
            }
            acoustic_.load(logp, frame);
            last = step(graph, options, rescoring, result.work);
        }
        if (last == Step::kFull) {
            result.outcome = Outcome::kCapacity;
            return;
        }
        result.path = end(graph, models_, tokens_, histories_, log_, offset_, last == Step::kAlive);
        result.outcome = Outcome::kDecoded;
    }

  private:
    enum class Step : std::uint8_t { kAlive, kDead, kFull };

    void begin(const GraphView& graph, const DecodeOptions& options, const RescoringOptions& rescoring,
               Work& work) {
        acoustic_.begin(options.acoustic_scale, options.blank_penalty, options.blank_column);
        log_.begin(options.collect_above);
        closure_.begin(graph);
        cache_.begin();
        models_.begin(options.collect_above);
        offset_ = 0.0;
        tokens_.clear();
        histories_.clear();
        candidates_.clear();
        candidates_.add({0.0F, kNoArc, graph.start, kNoSource});
        deviations_.clear();
        deviations_.add({0.0F, models_.start()});
        settle(graph, rescoring, beam_bound(0.0F, options.beam), 0, work);
    }

    // Decodes one frame. If it admits nothing, everything is as after the frame before.
    Step step(const GraphView& graph, const DecodeOptions& options, const RescoringOptions& rescoring, Work& work) {
        const float cut = cutoff(tokens_, options.beam, options.max_active, cutoff_scratch_);
        const auto first_log = log_.size() - static_cast<std::uint32_t>(tokens_.size());
        const float kept = Expand(graph, acoustic_, options.beam, candidates_, work)(tokens_, first_log, cut);
        lookup(graph, models_, kept, histories_, first_log, cache_, candidates_, deviations_, work);
        bool alive;
        const float bound = rescore(deviations_, options.beam, candidates_, alive);
        if (!alive) {
            return Step::kDead;
        }
        if (!settle(graph, rescoring, bound, first_log, work)) {
            return Step::kFull;
        }
        ++work.frames;
        return Step::kAlive;
    }

    // False if the token log has no room for the frame.
    bool settle(const GraphView& graph, const RescoringOptions& rescoring, float bound,
                std::uint32_t first_log_last, Work& work) {
        const SourceHistories sources{histories_, first_log_last, log_.size()};
        admit(graph, models_, candidates_, deviations_, bound, sources, closure_, hypotheses_, work);
        closure_(graph, models_, rescoring, bound, sources, cache_, hypotheses_, work);
        if (!log_.has_room(hypotheses_.frontier().size())) {
            return false;
        }
        hypotheses_.compact(log_.size());
        histories_.resize(hypotheses_.histories().size());
        std::copy(hypotheses_.histories().begin(), hypotheses_.histories().end(), histories_.begin());
        offset_ += static_cast<double>(prune(hypotheses_.frontier(), tokens_, log_));
        work.tokens += tokens_.size();
        if (models_.collect(histories_)) {
            cache_.begin();
        }
        return true;
    }

    Models models_;
    Acoustic acoustic_;
    Buffer<Token> tokens_;
    Buffer<History> histories_;  // of the tokens
    Buffer<Candidate> candidates_;
    Buffer<Deviation> deviations_;  // of the candidates
    CutoffScratch cutoff_scratch_;
    LookupCache cache_;
    Hypotheses hypotheses_;
    RescoringClosure closure_;
    TokenLog log_;
    double offset_ = 0.0;
};

}  // namespace arcbeam::twin
