// Stage closure: follows the epsilon arcs until nothing is left to follow.
//
// in   frontier (winners so far), the bound of the frame, the log index that slot 0 will have
// out  frontier with every state that an epsilon path reaches within the bound, each with its winner
// rule states by epsilon depth, so a state is complete before its epsilon arcs are followed, each once;
//      a candidate is admitted iff finite and within the bound; its source is a token of this same frame;
//      `links` (lattice.hpp) sees those admitted in this order
#pragma once

#include <algorithm>

#include "decode/recombine.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

class Closure {
  public:
    void begin(const GraphView& graph) { first_of_depth_.fill(graph.max_depth + std::size_t{2}, kNone); }

    template <typename Links = NoLinks>
    void operator()(const GraphView& graph, float bound, std::uint32_t first_log, StateTable& table,
                    Frontier& frontier, Links&& links = Links{}) {
        constexpr std::uint32_t kAhead = 8;
        next_.clear();
        deepest_ = 0;
        for (std::uint32_t slot = 0; slot < frontier.size(); ++slot) {
            if (slot + kAhead < frontier.size()) {
                prefetch(graph.states + frontier[slot + kAhead].state);
            }
            enlist(graph, frontier[slot].state, slot);
        }
        for (std::uint32_t depth = 0; depth <= deepest_; ++depth) {
            std::uint32_t slot = first_of_depth_[depth];
            first_of_depth_[depth] = kNone;
            for (std::uint32_t ahead = slot; ahead != kNone; ahead = next_[ahead]) {
                look_ahead(graph, frontier[ahead].state);
            }
            for (; slot != kNone; slot = next_[slot]) {
                follow(graph, bound, first_log, slot, table, frontier, links);
            }
        }
    }

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;

    // Puts the slot on the list of its state's depth, or on the last one if there is nothing to follow.
    void enlist(const GraphView& graph, std::uint32_t state, std::uint32_t slot) {
        const StateRecord& record = graph.states[state];
        // Without a branch, because it would be hard to predict: the list after the last depth is never followed.
        const bool has_epsilons = record.first_arc != record.first_emitting;
        const std::uint32_t depth = has_epsilons ? record.depth : graph.max_depth + 1;
        deepest_ = std::max(deepest_, has_epsilons ? record.depth : 0U);
        next_.add(first_of_depth_[depth]);
        first_of_depth_[depth] = slot;
        prefetch(graph.targets + record.first_arc);
        prefetch(graph.columns + record.first_emitting);  // for the next frame, as the end of the arcs
        prefetch(graph.states + state + 1);
    }

    static void look_ahead(const GraphView& graph, std::uint32_t state) {
        const StateRecord& record = graph.states[state];
        for (std::uint32_t arc = record.first_arc; arc < record.first_emitting; ++arc) {
            prefetch(graph.states + graph.targets[arc].next_state);
        }
    }

    template <typename Links>
    void follow(const GraphView& graph, float bound, std::uint32_t first_log, std::uint32_t slot, StateTable& table,
                Frontier& frontier, Links& links) {
        const float cost = frontier[slot].cost;
        const StateRecord& record = graph.states[frontier[slot].state];
        for (std::uint32_t arc = record.first_arc; arc < record.first_emitting; ++arc) {
            const ArcTarget& target = graph.targets[arc];
            const float next_cost = extend_epsilon(cost, target.weight);
            if (!admits(bound, next_cost)) {
                continue;
            }
            bool added;
            const std::uint32_t reached = table.find_or_add({target.next_state}, added);
            const Candidate candidate{next_cost, arc, target.next_state, first_log + slot};
            links.add(candidate, reached);
            if (added) {
                frontier.add(candidate);
                enlist(graph, target.next_state, reached);
            } else if (wins(next_cost, arc, frontier[reached])) {
                frontier[reached] = candidate;
            }
        }
    }

    Buffer<std::uint32_t> first_of_depth_;  // [max_depth + 2]: first slot of each list
    Buffer<std::uint32_t> next_;            // [slots]: the next slot of the same list
    std::uint32_t deepest_ = 0;
};

}  // namespace arcbeam::twin
