// Epsilon depth by Kahn's rounds: a state's depth is the round in which its last epsilon predecessor is done.
//
// The graph is far larger than the caches, and arcs may lead anywhere, so the loops below prefetch: otherwise they
// would wait for memory.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/compile.hpp"

namespace arcbeam {
namespace {

constexpr std::size_t kAhead = 16U;  // arcs or states between a prefetch and its use
constexpr std::size_t kNamed = 8U;   // states of a cycle that the message names

template <typename Visit>
void each_epsilon(const GraphColumns& graph, std::size_t state, Visit visit) {
    const StateRecord& record = graph.states[state];
    for (std::size_t a = record.first_arc; a < record.first_emitting; ++a) visit(graph.targets[a].next_state);
}

// Every state that is left has a predecessor that is left, so walking backwards ends on a cycle.
Status name_cycle(const GraphColumns& graph, const std::vector<std::uint32_t>& waiting) {
    std::vector<std::uint32_t> before(graph.num_states, 0U);
    std::uint32_t state = 0U;
    for (std::uint32_t s = 0U; s < graph.num_states; ++s) {
        if (waiting[s] == 0U) continue;
        state = s;
        each_epsilon(graph, s, [&](std::uint32_t next) { before[next] = s; });
    }
    std::vector<bool> seen(graph.num_states, false);
    while (!seen[state]) {
        seen[state] = true;
        state = before[state];
    }
    std::vector<std::uint32_t> cycle;  // against the arcs
    const std::uint32_t first = state;
    do {
        cycle.push_back(state);
        state = before[state];
    } while (state != first);
    std::reverse(cycle.begin(), cycle.end());
    std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
    std::string names;
    for (std::size_t i = 0U; i < std::min(cycle.size(), kNamed); ++i) names += std::to_string(cycle[i]) + " -> ";
    if (cycle.size() > kNamed) names += "... (" + std::to_string(cycle.size()) + " states) -> ";
    names += std::to_string(cycle.front());
    return graph_error("the epsilon arcs form a cycle: %s; expected none, because a path could follow it for ever",
                       names.c_str());
}

// waiting[s] becomes the number of epsilon arcs into s.
void count_predecessors(const GraphColumns& graph, std::vector<std::uint32_t>& waiting) {
    constexpr std::size_t kBatch = 64U;
    std::uint32_t batch[kBatch];
    std::size_t filled = 0U;
    const auto flush = [&] {
        for (std::size_t i = 0U; i < filled; ++i) ++waiting[batch[i]];
        filled = 0U;
    };
    for (std::size_t s = 0U; s < graph.num_states; ++s) {
        each_epsilon(graph, s, [&](std::uint32_t next) {
            __builtin_prefetch(&waiting[next], 1);
            batch[filled++] = next;
            if (filled == kBatch) flush();
        });
    }
    flush();
}

}  // namespace

Status fill_depths(const GraphColumns& graph, std::uint32_t* max_depth) {
    std::vector<std::uint32_t> waiting(graph.num_states, 0U);
    count_predecessors(graph, waiting);

    // Only states that have epsilon arcs need a turn, because no state waits for the others.
    std::vector<std::uint32_t> round;
    std::vector<std::uint32_t> next_round;
    std::uint64_t blocked = 0U;  // states that still wait for a predecessor
    for (std::uint32_t s = 0U; s < graph.num_states; ++s) {
        const StateRecord& record = graph.states[s];
        if (waiting[s] != 0U) {
            ++blocked;
        } else if (record.first_emitting != record.first_arc) {
            round.push_back(s);
        }
    }
    std::uint32_t depth = 0U;
    *max_depth = 0U;
    while (!round.empty()) {
        ++depth;
        next_round.clear();
        for (std::size_t i = 0U; i < round.size(); ++i) {
            if (i + 3U * kAhead < round.size()) __builtin_prefetch(&graph.states[round[i + 3U * kAhead]]);
            if (i + 2U * kAhead < round.size()) {
                __builtin_prefetch(&graph.targets[graph.states[round[i + 2U * kAhead]].first_arc]);
            }
            if (i + kAhead < round.size()) {
                const std::uint32_t next = graph.targets[graph.states[round[i + kAhead]].first_arc].next_state;
                __builtin_prefetch(&waiting[next], 1);
                __builtin_prefetch(&graph.states[next], 1);
            }
            each_epsilon(graph, round[i], [&](std::uint32_t next) {
                if (--waiting[next] != 0U) return;
                --blocked;
                *max_depth = depth;
                StateRecord& record = graph.states[next];
                record.depth = depth;
                if (record.first_emitting != record.first_arc) next_round.push_back(next);
            });
        }
        round.swap(next_round);
    }
    return blocked == 0U ? Status{} : name_cycle(graph, waiting);
}

}  // namespace arcbeam
