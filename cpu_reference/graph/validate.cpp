#include "graph/validate.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "common/parallel.hpp"

namespace arcbeam {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool legal(float weight) { return weight > -kInfinity; }  // false for NaN, too

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Describes in words what is wrong with a state; OK if nothing is.
Status describe_state(const GraphView& graph, std::uint32_t num_columns, std::uint64_t s) {
    const StateRecord& record = graph.states[s];
    const std::uint32_t end = graph.states[s + 1U].first_arc;
    const auto state = static_cast<unsigned>(s);
    if (record.first_arc > record.first_emitting || record.first_emitting > end || end > graph.num_arcs) {
        return graph_error("state %u: arcs %u, emitting from %u, up to %u; expected an order within the %u arcs",
                           state, record.first_arc, record.first_emitting, end, graph.num_arcs);
    }
    if (record.depth > graph.max_depth) {
        return graph_error("state %u: epsilon depth is %u, beyond the graph's %u", state, record.depth,
                           graph.max_depth);
    }
    if (!legal(graph.finals[s])) {
        return graph_error("state %u: final cost is %f; expected a finite cost, or +inf where not final", state,
                           static_cast<double>(graph.finals[s]));
    }
    float smallest = kInfinity;
    std::uint32_t previous = 0U;
    for (std::uint32_t a = record.first_arc; a < end; ++a) {
        const ArcTarget target = graph.targets[a];
        if (target.next_state >= graph.num_states) {
            return graph_error("state %u, arc %u: leads to state %u, but the graph has states 0 to %u", state, a,
                               target.next_state, graph.num_states - 1U);
        }
        if (!legal(target.weight)) {
            return graph_error("state %u, arc %u: weight is %f; expected a finite cost or +inf", state, a,
                               static_cast<double>(target.weight));
        }
        const std::uint32_t column = graph.columns[a];
        if (a < record.first_emitting) {
            if (column != kEpsilonColumn) {
                return graph_error("state %u, arc %u: an epsilon arc reads column %u; expected %u", state, a,
                                   column, static_cast<unsigned>(kEpsilonColumn));
            }
            if (graph.states[target.next_state].depth <= record.depth) {
                return graph_error(
                    "state %u, arc %u: an epsilon arc leads from depth %u to state %u of depth %u; expected a "
                    "greater depth",
                    state, a, record.depth, target.next_state, graph.states[target.next_state].depth);
            }
            continue;
        }
        if (column >= num_columns || column < previous) {
            return graph_error(
                "state %u, arc %u: reads column %u after column %u; expected an order below %u columns", state, a,
                column, previous, num_columns);
        }
        previous = column;
        smallest = std::min(smallest, target.weight);
    }
    if (!same_bits(smallest, record.smallest_weight)) {
        return graph_error("state %u: smallest weight is %g; expected %g", state,
                           static_cast<double>(record.smallest_weight), static_cast<double>(smallest));
    }
    return {};
}

// Checks a few thousand states at a time, so that later loops find in the cache what the first one has read. Each
// loop only notes whether anything is wrong and does not stop; describe_state then finds out what it is.
constexpr std::uint64_t kStatesAtOnce = 4096U;

bool records_are_sound(const GraphView& graph, std::uint64_t begin, std::uint64_t end) {
    bool sound = true;
    for (std::uint64_t s = begin; s < end; ++s) {
        const StateRecord& record = graph.states[s];
        const std::uint32_t next = graph.states[s + 1U].first_arc;
        sound &= record.first_arc <= record.first_emitting && record.first_emitting <= next &&
                 next <= graph.num_arcs && record.depth <= graph.max_depth && legal(graph.finals[s]);
    }
    return sound;
}

bool targets_are_sound(const GraphView& graph, std::uint32_t begin, std::uint32_t end) {
    bool sound = true;
    for (std::uint32_t a = begin; a < end; ++a) {
        const ArcTarget target = graph.targets[a];
        sound &= static_cast<bool>(static_cast<int>(target.next_state < graph.num_states) &
                                   static_cast<int>(legal(target.weight)));
    }
    return sound;
}

bool columns_are_sound(const GraphView& graph, std::uint32_t num_columns, std::uint64_t begin, std::uint64_t end) {
    bool sound = true;
    for (std::uint64_t s = begin; s < end; ++s) {
        const StateRecord& record = graph.states[s];
        const std::uint32_t arcs_end = graph.states[s + 1U].first_arc;
        for (std::uint32_t a = record.first_arc; a < record.first_emitting; ++a) {
            sound &= graph.columns[a] == kEpsilonColumn;
        }
        float smallest = kInfinity;
        std::uint32_t previous = 0U;
        for (std::uint32_t a = record.first_emitting; a < arcs_end; ++a) {
            sound &= graph.columns[a] >= previous;
            previous = graph.columns[a];
            smallest = std::min(smallest, graph.targets[a].weight);
        }
        sound &= (record.first_emitting == arcs_end || previous < num_columns) &&
                 same_bits(smallest, record.smallest_weight);
    }
    return sound;
}

// Epsilon arcs may lead to states anywhere, so their depths are prefetched well before they are read.
bool depths_are_sound(const GraphView& graph, std::uint64_t begin, std::uint64_t end) {
    constexpr std::size_t kWaiting = 64U;
    std::uint32_t next_states[kWaiting] = {};
    std::uint32_t depths[kWaiting] = {};
    std::size_t filled = 0U;
    bool sound = true;
    const auto compare_depths = [&] {
        for (std::size_t i = 0U; i < filled; ++i) sound &= graph.states[next_states[i]].depth > depths[i];
        filled = 0U;
    };
    for (std::uint64_t s = begin; s < end; ++s) {
        const StateRecord& record = graph.states[s];
        for (std::uint32_t a = record.first_arc; a < record.first_emitting; ++a) {
            const std::uint32_t next = graph.targets[a].next_state;
            __builtin_prefetch(&graph.states[next]);
            next_states[filled] = next;
            depths[filled++] = record.depth;
            if (filled == kWaiting) compare_depths();
        }
    }
    compare_depths();
    return sound;
}

// The order matters: each check may rely on what the checks before it have confirmed.
bool states_are_sound(const GraphView& graph, std::uint32_t num_columns, std::uint64_t begin, std::uint64_t end) {
    return records_are_sound(graph, begin, end) &&
           targets_are_sound(graph, graph.states[begin].first_arc, graph.states[end].first_arc) &&
           columns_are_sound(graph, num_columns, begin, end) && depths_are_sound(graph, begin, end);
}

}  // namespace

Status validate(const GraphView& graph, std::uint32_t num_columns, unsigned threads) {
    if (graph.start >= graph.num_states) {
        return graph_error("the start state is %u, but the graph has %u states", graph.start, graph.num_states);
    }
    if (num_columns > kMostColumns) {
        return graph_error("the graph reads %u columns; at most %u can be told apart", num_columns, kMostColumns);
    }
    if (graph.max_depth > graph.num_states) {  // one more than paths have arcs: that of new words
        return graph_error("the epsilon depth is %u, but the graph has %u states", graph.max_depth,
                           graph.num_states);
    }
    if (graph.states[0].first_arc != 0U || graph.states[graph.num_states].first_arc != graph.num_arcs) {
        return graph_error("the arcs of the states run from %u to %u; expected 0 to %u", graph.states[0].first_arc,
                           graph.states[graph.num_states].first_arc, graph.num_arcs);
    }
    return parallel_ranges(graph.num_states, threads, [&](std::uint64_t begin, std::uint64_t end) -> Status {
        for (std::uint64_t first = begin; first < end; first += kStatesAtOnce) {
            const std::uint64_t last = std::min(end, first + kStatesAtOnce);
            if (states_are_sound(graph, num_columns, first, last)) continue;
            for (std::uint64_t s = first; s < last; ++s) {
                Status status = describe_state(graph, num_columns, s);
                if (!status.ok()) return status;
            }
            return graph_error("states %llu to %llu break a rule", static_cast<unsigned long long>(first),
                               static_cast<unsigned long long>(last - 1U));
        }
        return {};
    });
}

std::uint32_t find_unknown_word(const std::uint32_t* words, std::uint32_t num_arcs, const unsigned char* known,
                                std::uint64_t num_known, unsigned threads) {
    std::atomic<std::uint32_t> found{num_arcs};
    (void)parallel_ranges(num_arcs, threads, [&](std::uint64_t begin, std::uint64_t end) -> Status {
        for (std::uint64_t a = begin; a < end; ++a) {
            const std::uint32_t word = words[a];
            if (word == kNoWord || (word < num_known && known[word] != 0U)) continue;
            std::uint32_t seen = found.load();
            while (a < seen && !found.compare_exchange_weak(seen, static_cast<std::uint32_t>(a))) {
            }
            break;
        }
        return {};
    });
    return found.load();
}

std::uint32_t state_of_arc(const StateRecord* states, std::uint32_t num_states, std::uint32_t arc) {
    const StateRecord* after =
        std::upper_bound(states, states + num_states, arc,
                         [](std::uint32_t id, const StateRecord& record) { return id < record.first_arc; });
    return static_cast<std::uint32_t>(after - states) - 1U;
}

ArcCounts count_arcs(const GraphView& graph) {
    ArcCounts counts{};
    for (std::uint32_t s = 0U; s < graph.num_states; ++s) {
        if (graph.finals[s] < kInfinity) ++counts.final_states;
        const StateRecord& record = graph.states[s];
        for (std::uint32_t a = record.first_arc; a < graph.arcs_end(s); ++a) {
            const bool writes = graph.words[a] != kNoWord;
            if (a < record.first_emitting) {
                ++counts.epsilon;
                if (writes) ++counts.epsilon_with_word;
                continue;
            }
            ++counts.emitting;
            if (writes) ++counts.emitting_with_word;
            if (graph.targets[a].next_state == s) ++counts.self_loops;
        }
    }
    return counts;
}

}  // namespace arcbeam
