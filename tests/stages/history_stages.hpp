// The stages of a frame with histories one at a time, for tests and tools that examine the result of each.
#pragma once

#include <algorithm>

#include "decode/rescoring_lane.hpp"

namespace arcbeam::twin {

// The order of tokens of one cost, whose histories are of AutomatonModels; without histories there are none.
struct KeyOrder {
    const Buffer<Token>& tokens;
    const Buffer<History>& histories;

    [[nodiscard]] bool precedes(std::size_t i, std::size_t j) const {
        return tokens[i].state < tokens[j].state || (tokens[i].state == tokens[j].state && !histories.empty() &&
                                                     AutomatonModels::precedes(histories[i], histories[j]));
    }
};

inline void cutoff(const Buffer<Token>& tokens, const Buffer<History>& histories, float beam,
                   std::uint32_t max_active, Cutoff& cut) {
    cutoff(tokens, beam, max_active, KeyOrder{tokens, histories}, cut);
}

class HistoryStages {
  public:
    HistoryStages(const GraphView& graph, const RescoringView& view, const RescoringOptions& options)
        : graph_(graph), models_(view), options_(options) {
        closure_.begin(graph_);
        cache_.begin();
    }

    [[nodiscard]] History start() const { return models_.start(); }

    // Recombines candidates with their deviations. Sources below first_log are tokens, whose log entries end there.
    void recombine(const Buffer<Candidate>& candidates, const Buffer<Deviation>& deviations, float bound,
                   const Buffer<History>& of_tokens, std::uint32_t first_log) {
        of_tokens_.resize(of_tokens.size());
        std::copy(of_tokens.begin(), of_tokens.end(), of_tokens_.begin());
        bound_ = bound;
        first_log_ = first_log;
        admit(graph_, models_, candidates, deviations, bound, sources(), closure_, hypotheses_, work_);
    }

    void close() { closure_(graph_, models_, options_, bound_, sources(), cache_, hypotheses_, work_); }

    // Removes the hypotheses that were cut.
    void compact() { hypotheses_.compact(first_log_); }

    [[nodiscard]] const Frontier& frontier() const { return hypotheses_.frontier(); }
    [[nodiscard]] const Buffer<History>& histories() const { return hypotheses_.histories(); }

    [[nodiscard]] Path backtrack(const Buffer<Token>& tokens, const TokenLog& log) const {
        const RescoredEnds<AutomatonModels, GraphView> ends{graph_, models_, tokens, hypotheses_.histories()};
        return twin::backtrack(best_end(ends, tokens, true), tokens, log, 0.0, true);
    }

  private:
    [[nodiscard]] SourceHistories<History> sources() const {
        return {of_tokens_, first_log_ - static_cast<std::uint32_t>(of_tokens_.size()), first_log_};
    }

    GraphView graph_;
    AutomatonModels models_;
    RescoringOptions options_;
    Buffer<History> of_tokens_;
    float bound_ = 0.0F;
    std::uint32_t first_log_ = 0;
    LookupCache<AutomatonModels> cache_;
    Hypotheses<AutomatonModels> hypotheses_;
    RescoringClosure<AutomatonModels> closure_;
    Work work_;
};

}  // namespace arcbeam::twin
