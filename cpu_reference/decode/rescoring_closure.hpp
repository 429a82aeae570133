// The closure of a search with histories: as closure.hpp, but the hypotheses of a state are cut before they are
// followed.
//
// An epsilon arc with a word is looked up iff its cost before rescoring is within the bound. Its rescored cost has
// to be within the bound, too.
#pragma once

#include <algorithm>

#include "decode/hypotheses.hpp"
#include "decode/lookup.hpp"
#include "graph/open_graph.hpp"

namespace arcbeam::twin {

struct RescoringOptions {
    std::uint32_t hypotheses_per_state;  // 0: no limit
};

template <typename Models>
class RescoringClosure {
  public:
    using History = typename Models::History;

    template <typename Graph>
    void begin(const Graph& graph) {
        first_of_depth_.fill(graph.max_depth + std::size_t{1}, kNone);
    }

    // Enlists a state that gets its first hypothesis.
    template <typename Graph>
    void enlist(const Graph& graph, std::uint32_t state, std::uint32_t list) {
        const std::uint32_t depth = graph.states[state].depth;
        next_.resize(list + std::size_t{1});
        next_[list] = kUnlisted;
        if (has_epsilons(graph, state)) {
            next_[list] = first_of_depth_[depth];
            first_of_depth_[depth] = list;
            deepest_ = std::max(deepest_, depth);
        }
    }

    template <typename Graph, typename Links = NoLinks>
    void operator()(const Graph& graph, Models& models, const RescoringOptions& options, float bound,
                    const SourceHistories<History>& sources, LookupCache<Models>& cache,
                    Hypotheses<Models>& hypotheses, Work& work, Links&& links = Links{}) {
        for (std::uint32_t depth = 0; depth <= deepest_; ++depth) {
            std::uint32_t list = first_of_depth_[depth];
            first_of_depth_[depth] = kNone;
            for (; list != kNone; list = next_[list]) {
                hypotheses.cut(models, list, options.hypotheses_per_state);
                for (std::uint32_t slot = hypotheses.first(list); slot != kNone; slot = hypotheses.next(slot)) {
                    follow(graph, models, bound, slot, sources, cache, hypotheses, work, links);
                }
            }
        }
        deepest_ = 0;
        for (std::uint32_t list = 0; list < hypotheses.num_lists(); ++list) {
            if (next_[list] == kUnlisted) {
                hypotheses.cut(models, list, options.hypotheses_per_state);
            }
        }
    }

  private:
    static constexpr std::uint32_t kNone = Hypotheses<Models>::kNone;
    static constexpr std::uint32_t kUnlisted = 0xfffffffeU;  // a state without epsilon arcs

    template <typename Graph, typename Links>
    void follow(const Graph& graph, Models& models, float bound, std::uint32_t slot,
                const SourceHistories<History>& sources, LookupCache<Models>& cache, Hypotheses<Models>& hypotheses,
                Work& work, Links& links) {
        const float cost = hypotheses.frontier()[slot].cost;
        const History history = hypotheses.histories()[slot];
        for_each_epsilon(graph, hypotheses.frontier()[slot].state, [&](std::uint32_t arc) {
            const ArcTarget& target = graph.targets[arc];
            auto addend = Models::keep(history);
            float next_cost = extend_epsilon(cost, target.weight);
            if (!admits(bound, next_cost)) {
                return;
            }
            if (graph.words[arc] != kNoWord) {
                addend = cache(models, history, graph.words[arc], work);
                next_cost = rescored(next_cost, addend);
                if (!admits(bound, next_cost)) {
                    return;
                }
            }
            const Candidate candidate{next_cost, arc, target.next_state, sources.first_log + slot};
            const auto added = hypotheses.add(models, candidate, addend.next, sources);
            links.add(candidate, added.slot);
            if (added.is_new_state) {
                enlist(graph, target.next_state, added.list);
            }
        });
    }

    Buffer<std::uint32_t> first_of_depth_;  // [max_depth + 1]: first list of each depth
    Buffer<std::uint32_t> next_;            // [lists]: the next list of the same depth
    std::uint32_t deepest_ = 0;
};

}  // namespace arcbeam::twin
