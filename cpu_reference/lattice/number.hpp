// Numbers what a search has kept of an utterance, and so makes its lattice: the last step of both engines.
//
// in   tokens and links in the order in which they were found, which within a step is any
// out  the lattice, which does not depend on that order
// rule tokens by (step, epsilon depth of the graph state, graph state, winning arc, number of the winner's source),
//      links by (source, arc). The winner of a token that an epsilon arc reached has a smaller depth, so its number
//      is known in time. Where the search has died, the lattice is the best path alone (law 5 of
//      docs/design/rules.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "lattice/lattice.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::lattice {

constexpr std::uint32_t kStart = 0xffffffffU;  // source of the token that starts an utterance, and its arc

// How a token was reached: the winner among the links that lead to it.
struct Entry {
    std::uint32_t source;  // an entry, or kStart
    std::uint32_t arc;
};

struct Found {
    const Entry* entries;  // [tokens]: step by step
    const float* costs;    // [tokens]: relative to the best of the step
    std::size_t num_tokens;
    const Link* losers;  // links that are not their targets' winners, in any order; sources and targets are entries
    std::size_t num_losers;
    const std::uint32_t*
        first_entry;        // [steps + 1]: the entries of step s are [first_entry[s], first_entry[s + 1])
    const double* offsets;  // [steps]: what the costs of the step are relative to
    std::size_t num_steps;
    const float* end_extras;  // [entries of the last step]: end cost above the best end; +inf: no path ends here
    std::uint32_t best_end;   // an entry of the last step
    double total_cost;
    bool reached_final;
    bool complete;  // false: the search died
};

template <typename Graph>
class Numbering {
  public:
    Numbering(const Graph& graph, const Found& found) : graph_(graph), found_(found) {}

    Lattice operator()() {
        find_states();
        number_tokens();
        number_links();
        find_best();
        const std::uint32_t first = found_.first_entry[found_.num_steps - 1];
        lattice_.end_extras.resize(found_.num_tokens - first);
        for (std::uint32_t entry = first; entry < found_.num_tokens; ++entry) {
            lattice_.end_extras[numbers_[entry] - first] = found_.end_extras[entry - first];
        }
        lattice_.total_cost = found_.total_cost;
        lattice_.reached_final = found_.reached_final;
        lattice_.complete = found_.complete;
        return std::move(lattice_);
    }

  private:
    static constexpr std::size_t kAhead = 16;

    struct Key {
        std::uint64_t depth_and_state;
        std::uint32_t arc;
        std::uint32_t entry;

        friend bool operator<(const Key& a, const Key& b) {
            return a.depth_and_state < b.depth_and_state ||
                   (a.depth_and_state == b.depth_and_state && a.arc < b.arc);
        }
    };

    // Both columns of the graph are far apart in memory, so they are prefetched. A token that is alone in its step
    // needs no depth.
    void find_states() {
        states_.resize(found_.num_tokens);
        for (std::size_t step = 0; step < found_.num_steps; ++step) {
            const std::size_t begin = found_.first_entry[step];
            const std::size_t end = found_.first_entry[step + 1];
            for (std::size_t i = begin; i < end; ++i) {
                if (i + kAhead < found_.num_tokens && found_.entries[i + kAhead].arc != kStart) {
                    __builtin_prefetch(graph_.targets + found_.entries[i + kAhead].arc);
                }
                const std::uint32_t arc = found_.entries[i].arc;
                states_[i] = arc == kStart ? graph_.start : graph_.targets[arc].next_state;
                if (end - begin > 1) {
                    __builtin_prefetch(graph_.states + states_[i]);
                }
            }
        }
    }

    void number_tokens() {
        numbers_.resize(found_.num_tokens);
        lattice_.states.resize(found_.num_tokens);
        lattice_.costs.resize(found_.num_tokens);
        lattice_.first_token.assign(found_.first_entry, found_.first_entry + found_.num_steps + 1);
        for (std::size_t step = 0; step < found_.num_steps; ++step) {
            const std::uint32_t begin = found_.first_entry[step];
            const std::uint32_t past = found_.first_entry[step + 1];
            if (past - begin == 1) {
                give(begin, begin, step);
                continue;
            }
            sort_step(begin, past);
            for (std::size_t i = 0; i < keys_.size();) {
                const std::size_t end = end_of_ties(i);
                if (end - i > 1) {  // hypotheses of one state: their sources are numbered by now
                    std::sort(keys_.begin() + static_cast<std::ptrdiff_t>(i),
                              keys_.begin() + static_cast<std::ptrdiff_t>(end), [this](const Key& a, const Key& b) {
                                  return numbers_[found_.entries[a.entry].source] <
                                         numbers_[found_.entries[b.entry].source];
                              });
                }
                for (; i < end; ++i) {
                    give(keys_[i].entry, begin + static_cast<std::uint32_t>(i), step);
                }
            }
        }
    }

    void give(std::uint32_t entry, std::uint32_t number, std::size_t step) {
        numbers_[entry] = number;
        lattice_.states[number] = states_[entry];
        lattice_.costs[number] = found_.offsets[step] + static_cast<double>(found_.costs[entry]);
    }

    void sort_step(std::uint32_t begin, std::uint32_t end) {
        keys_.clear();
        for (std::uint32_t entry = begin; entry < end; ++entry) {
            const std::uint64_t depth = graph_.states[states_[entry]].depth;
            keys_.push_back({depth << 32U | states_[entry], found_.entries[entry].arc, entry});
        }
        std::sort(keys_.begin(), keys_.end());
    }

    [[nodiscard]] std::size_t end_of_ties(std::size_t i) const {
        std::size_t end = i + 1;
        while (end < keys_.size() && !(keys_[i] < keys_[end])) {
            ++end;
        }
        return end;
    }

    // Counts the links that leave each token, places them, and sorts the few of each token.
    void number_links() {
        std::vector<std::uint32_t>& first = lattice_.first_link;
        first.assign(found_.num_tokens + 1, 0);
        for_each_link([&](const Link& link) { ++first[link.source + 1]; });
        for (std::size_t token = 0; token < found_.num_tokens; ++token) {
            first[token + 1] += first[token];
        }
        lattice_.links.resize(first.back());
        places_.assign(first.begin(), first.end() - 1);
        for_each_link([&](const Link& link) { lattice_.links[places_[link.source]++] = link; });
        for (std::size_t token = 0; token < found_.num_tokens; ++token) {
            if (first[token + 1] - first[token] > 1) {
                std::sort(links_at(first[token]), links_at(first[token + 1]),
                          [](const Link& a, const Link& b) { return a.arc < b.arc; });
            }
        }
    }

    template <typename Use>
    void for_each_link(Use use) const {
        for (std::size_t entry = 0; entry < found_.num_tokens; ++entry) {
            const Entry& winner = found_.entries[entry];
            if (winner.source != kStart) {
                use(Link{numbers_[winner.source], numbers_[entry], winner.arc, 0.0F});
            }
        }
        for (std::size_t i = 0; i < found_.num_losers; ++i) {
            const Link& loser = found_.losers[i];
            use(Link{numbers_[loser.source], numbers_[loser.target], loser.arc, loser.slack});
        }
    }

    [[nodiscard]] std::vector<Link>::iterator links_at(std::uint32_t link) {
        return lattice_.links.begin() + static_cast<std::ptrdiff_t>(link);
    }

    void find_best() {
        for (std::uint32_t at = found_.best_end; found_.entries[at].source != kStart;
             at = found_.entries[at].source) {
            std::uint32_t link = lattice_.first_link[numbers_[found_.entries[at].source]];
            while (lattice_.links[link].arc != found_.entries[at].arc) {
                ++link;
            }
            lattice_.best.push_back(link);
        }
        std::reverse(lattice_.best.begin(), lattice_.best.end());
    }

    const Graph& graph_;
    const Found& found_;
    Lattice lattice_;
    std::vector<std::uint32_t> states_;   // [entries]: graph states
    std::vector<std::uint32_t> numbers_;  // [entries]: of their tokens
    std::vector<std::uint32_t> places_;   // [tokens]: where the next link that leaves each goes
    std::vector<Key> keys_;               // of a step
};

// The lattice of the best path alone.
template <typename Graph>
Lattice number_best(const Graph& graph, const Found& found) {
    std::vector<std::uint32_t> path;  // entries, the last first
    for (std::uint32_t at = found.best_end; at != kStart; at = found.entries[at].source) {
        path.push_back(at);
    }
    std::vector<Entry> entries;
    std::vector<float> costs;
    std::vector<std::uint32_t> first_entry{0};
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
        const auto entry = static_cast<std::uint32_t>(entries.size());
        while (*at >= found.first_entry[first_entry.size()]) {
            first_entry.push_back(entry);
        }
        entries.push_back({entry == 0 ? kStart : entry - 1, found.entries[*at].arc});
        costs.push_back(found.costs[*at]);
    }
    first_entry.push_back(static_cast<std::uint32_t>(entries.size()));
    std::vector<float> end_extras(entries.size() - first_entry[found.num_steps - 1],
                                  std::numeric_limits<float>::infinity());
    end_extras.back() = 0.0F;
    Found best = found;
    best.entries = entries.data();
    best.costs = costs.data();
    best.num_tokens = entries.size();
    best.num_losers = 0;
    best.first_entry = first_entry.data();
    best.end_extras = end_extras.data();
    best.best_end = static_cast<std::uint32_t>(entries.size()) - 1U;
    return Numbering(graph, best)();
}

// `graph` is a GraphView, or an OpenGraph.
template <typename Graph>
Lattice number(const Graph& graph, const Found& found) {
    return found.complete ? Numbering(graph, found)() : number_best(graph, found);
}

}  // namespace arcbeam::lattice
