// The closure of a search with histories: as closure.hpp, but the hypotheses of a state are cut before they are
// followed.
//
// An epsilon arc with a word is looked up iff its cost before rescoring is within the bound. Its rescored cost has
// to be within the bound, too.
#pragma once

#include <algorithm>

#include "decode/hypotheses.hpp"
#include "decode/lookup.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

struct RescoringOptions {
    std::uint32_t hypotheses_per_state;  // 0: no limit
};

class RescoringClosure {
  public:
    void begin(const GraphView& graph) {
        first_of_depth_.fill(graph.max_depth + std::size_t{1}, Hypotheses::kNone);
    }

    // Enlists a state that gets its first hypothesis.
    void enlist(const GraphView& graph, std::uint32_t state, std::uint32_t list) {
        const StateRecord& record = graph.states[state];
        next_.resize(list + std::size_t{1});
        next_[list] = kUnlisted;
        if (record.first_arc != record.first_emitting) {
            next_[list] = first_of_depth_[record.depth];
            first_of_depth_[record.depth] = list;
            deepest_ = std::max(deepest_, record.depth);
        }
    }

    template <typename Models>
    void operator()(const GraphView& graph, Models& models, const RescoringOptions& options, float bound,
                    const SourceHistories& sources, LookupCache& cache, Hypotheses& hypotheses, Work& work) {
        for (std::uint32_t depth = 0; depth <= deepest_; ++depth) {
            std::uint32_t list = first_of_depth_[depth];
            first_of_depth_[depth] = Hypotheses::kNone;
            for (; list != Hypotheses::kNone; list = next_[list]) {
                hypotheses.cut(models, list, options.hypotheses_per_state);
                for (std::uint32_t slot = hypotheses.first(list); slot != Hypotheses::kNone;
                     slot = hypotheses.next(slot)) {
                    follow(graph, models, bound, slot, sources, cache, hypotheses, work);
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
    static constexpr std::uint32_t kUnlisted = 0xfffffffeU;  // a state without epsilon arcs

    template <typename Models>
    void follow(const GraphView& graph, Models& models, float bound, std::uint32_t slot,
                const SourceHistories& sources, LookupCache& cache, Hypotheses& hypotheses, Work& work) {
        const float cost = hypotheses.frontier()[slot].cost;
        const History history = hypotheses.histories()[slot];
        const StateRecord& record = graph.states[hypotheses.frontier()[slot].state];
        for (std::uint32_t arc = record.first_arc; arc < record.first_emitting; ++arc) {
            const ArcTarget& target = graph.targets[arc];
            Deviation deviation{0.0F, history};
            float next_cost = extend_epsilon(cost, target.weight);
            if (!admits(bound, next_cost)) {
                continue;
            }
            if (graph.words[arc] != kNoWord) {
                deviation = cache(models, history, graph.words[arc], work);
                next_cost = rescore_cost(next_cost, deviation.cost);
                if (!admits(bound, next_cost)) {
                    continue;
                }
            }
            bool is_new_state;
            const std::uint32_t list =
                hypotheses.add(models, {next_cost, arc, target.next_state, sources.first_log + slot},
                               deviation.next, sources, is_new_state);
            if (is_new_state) {
                enlist(graph, target.next_state, list);
            }
        }
    }

    Buffer<std::uint32_t> first_of_depth_;  // [max_depth + 1]: first list of each depth
    Buffer<std::uint32_t> next_;            // [lists]: the next list of the same depth
    std::uint32_t deepest_ = 0;
};

}  // namespace arcbeam::twin
