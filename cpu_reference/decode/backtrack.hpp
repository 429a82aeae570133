// Stage backtrack: the best token of the last live frame, and its path.
//
// in   tokens of the last live frame, whose log entries are the last tokens.size() of the log; the offset;
//      whether the search is alive
// out  Path
// rule with final weights added, the smallest (cost, state) among final tokens; if none is final, or the search
//      died before the last frame, the smallest (cost, state) among all tokens, and reached_final is false
#pragma once

#include <algorithm>
#include <vector>

#include "decode/prune.hpp"
#include "graph/open_graph.hpp"

namespace arcbeam::twin {

struct Path {
    std::vector<std::uint32_t> arcs;  // in the order of time, epsilon arcs included
    double total_cost = 0.0;          // offset + cost, final weight included if reached_final
    bool reached_final = false;
    bool complete = false;  // the search was alive after the last frame
};

// Where the best path ends.
struct End {
    std::size_t token;
    float cost;  // relative to the offset; with the final weight if reached_final
    bool reached_final;
};

// `ends.cost(i)` is what token i costs with its final weight, `ends.unfinished(i)` what it costs without one;
// `ends.precedes(i, j)` orders tokens of one cost.
template <typename Ends>
End best_end(const Ends& ends, const Buffer<Token>& tokens, bool alive) {
    End best{tokens.size(), 0.0F, false};
    const auto select = [&](bool final_only) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            const float cost = final_only ? ends.cost(i) : ends.unfinished(i);
            if (final_only && !is_finite(cost)) {
                continue;
            }
            if (best.token == tokens.size() || cost < best.cost ||
                (cost == best.cost && ends.precedes(i, best.token))) {
                best = {i, cost, final_only};
            }
        }
        return best.token != tokens.size();
    };
    if (!alive || !select(true)) {
        select(false);
    }
    return best;
}

// `settled`: the entry after which the path begins; by default the first one.
inline Path backtrack(const End& end, const Buffer<Token>& tokens, const TokenLog& log, double offset, bool alive,
                      std::uint32_t settled = kNoSource) {
    Path path;
    path.complete = alive;
    path.reached_final = end.reached_final;
    path.total_cost = offset + static_cast<double>(end.cost);
    std::uint32_t at = log.size() - static_cast<std::uint32_t>(tokens.size() - end.token);
    for (; log[at].arc != kNoArc && at != settled; at = log[at].source) {
        path.arcs.push_back(log[at].arc);
    }
    std::reverse(path.arcs.begin(), path.arcs.end());
    return path;
}

struct PlainEnds {
    const GraphView& graph;
    const Buffer<Token>& tokens;

    [[nodiscard]] float cost(std::size_t i) const {
        return extend_epsilon(tokens[i].cost, graph.finals[tokens[i].state]);
    }
    [[nodiscard]] float unfinished(std::size_t i) const { return tokens[i].cost; }
    [[nodiscard]] bool precedes(std::size_t i, std::size_t j) const { return tokens[i].state < tokens[j].state; }
};

inline Path backtrack(const GraphView& graph, const Buffer<Token>& tokens, const TokenLog& log, double offset,
                      bool alive) {
    return backtrack(best_end(PlainEnds{graph, tokens}, tokens, alive), tokens, log, offset, alive);
}

// The graph's part of a path's cost: arc weights and, if a final state was reached, the final weight, summed in
// float64 from the start. The rest of the total is the acoustic part.
inline double graph_cost(const OpenGraph& graph, const std::uint32_t* arcs, std::size_t n, bool reached_final) {
    double cost = 0.0;
    std::uint32_t state = graph.start;
    for (std::size_t i = 0; i < n; ++i) {
        cost += static_cast<double>(graph.targets[arcs[i]].weight);
        state = graph.targets[arcs[i]].next_state;
    }
    return reached_final ? cost + static_cast<double>(graph.finals[state]) : cost;
}

}  // namespace arcbeam::twin
