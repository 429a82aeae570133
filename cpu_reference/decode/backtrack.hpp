// Stage backtrack: the best token of the last live frame, and its path.
//
// in   tokens of the last live frame, whose log entries are the last tokens.size() of the log; the offset;
//      whether the search is alive
// out  Path
// rule with final weights added, the smallest (cost, state) among final tokens; if none is final, or the search
// died
//      before the last frame, the smallest (cost, state) among all tokens, and reached_final is false
#pragma once

#include <algorithm>
#include <vector>

#include "decode/prune.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

struct Path {
    std::vector<std::uint32_t> arcs;  // in the order of time, epsilon arcs included
    double total_cost = 0.0;          // offset + cost, final weight included if reached_final
    bool reached_final = false;
    bool complete = false;  // the search lived to the last frame
};

// `end_cost(i)` is what token i costs with its final weight; `precedes(i, j)` orders tokens of one cost.
template <typename EndCost, typename Precedes>
Path backtrack(const Buffer<Token>& tokens, const TokenLog& log, double offset, bool alive, EndCost end_cost,
               Precedes precedes) {
    Path path;
    path.complete = alive;
    float best_cost = 0.0F;
    std::size_t best = tokens.size();
    const auto select = [&](bool final_only) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            const float cost = final_only ? end_cost(i) : tokens[i].cost;
            if (final_only && !is_finite(cost)) {
                continue;
            }
            if (best == tokens.size() || cost < best_cost || (cost == best_cost && precedes(i, best))) {
                best = i;
                best_cost = cost;
            }
        }
        return best != tokens.size();
    };
    path.reached_final = alive && select(true);
    if (!path.reached_final) {
        select(false);
    }
    path.total_cost = offset + static_cast<double>(best_cost);

    std::uint32_t at = log.size() - static_cast<std::uint32_t>(tokens.size() - best);
    for (; log[at].arc != kNoArc; at = log[at].source) {
        path.arcs.push_back(log[at].arc);
    }
    std::reverse(path.arcs.begin(), path.arcs.end());
    return path;
}

inline Path backtrack(const GraphView& graph, const Buffer<Token>& tokens, const TokenLog& log, double offset,
                      bool alive) {
    const auto end_cost = [&](std::size_t i) {
        return extend_epsilon(tokens[i].cost, graph.finals[tokens[i].state]);
    };
    const auto precedes = [&](std::size_t i, std::size_t j) { return tokens[i].state < tokens[j].state; };
    return backtrack(tokens, log, offset, alive, end_cost, precedes);
}

// The graph's part of a path's cost: arc weights and, if a final state was reached, the final weight, summed in
// float64 from the start. The rest of the total is the acoustic part.
inline double graph_cost(const GraphView& graph, const std::uint32_t* arcs, std::size_t n, bool reached_final) {
    double cost = 0.0;
    std::uint32_t state = graph.start;
    for (std::size_t i = 0; i < n; ++i) {
        cost += static_cast<double>(graph.targets[arcs[i]].weight);
        state = graph.targets[arcs[i]].next_state;
    }
    return reached_final ? cost + static_cast<double>(graph.finals[state]) : cost;
}

}  // namespace arcbeam::twin
