// The stage lattice by itself, on the frames of a plain search, for tests and tools that examine its result.
#pragma once

#include "decode/closure.hpp"
#include "decode/lattice.hpp"

namespace arcbeam::twin {

// What recombine and closure admit, in their order.
struct Reached {
    Buffer<Candidate> candidates;
    Buffer<std::uint32_t> slots;

    void add(const Candidate& candidate, std::uint32_t slot) {
        candidates.add(candidate);
        slots.add(slot);
    }
};

inline void reach(const GraphView& graph, const Buffer<Candidate>& candidates, float bound, std::uint32_t first_log,
                  Reached& reached, Frontier& frontier) {
    StateTable table;
    Closure closure;
    Work work;
    table.begin_frame(candidates.size());
    recombine(candidates, bound, table, frontier, work, reached);
    closure.begin(graph);
    closure(graph, bound, first_log, table, frontier, reached);
}

class LinkStages {
  public:
    LinkStages(float lattice_beam, std::uint32_t collect_above) {
        links_.begin(lattice_beam, collect_above);
        log_.begin(TokenLog::kNever);
    }

    void commit(const Buffer<Candidate>& candidates, const std::uint32_t* slots, const Frontier& frontier) {
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            links_.add(candidates[i], slots[i]);
        }
        offset_ += static_cast<double>(prune(frontier, tokens_, log_));
        links_.commit(frontier, tokens_, offset_, [](std::uint32_t slot) { return slot; }, log_);
    }

    [[nodiscard]] std::uint32_t entries() const { return log_.size(); }

    Lattice finish(const GraphView& graph, bool alive) {
        const PlainEnds ends{graph, tokens_};
        const End end = best_end(ends, tokens_, alive);
        return links_.finish(graph, ends, tokens_, end, backtrack(end, tokens_, log_, offset_, alive), log_);
    }

  private:
    LinkLog links_;
    TokenLog log_;
    Buffer<Token> tokens_;
    double offset_ = 0.0;
};

}  // namespace arcbeam::twin
