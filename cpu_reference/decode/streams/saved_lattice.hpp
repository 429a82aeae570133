// What a stream keeps of its lattice between two chunks, in a SavedSearch: the same whatever engine, threads and
// chunks led to it, and whenever its logs were pruned.
//
// Both are pruned first, which is exact (law 8). Then entries are numbered step by step, within a step by (epsilon
// arcs at the end of their winners' path in it, number of their winner's source, its arc). No two have the same:
// what an arc makes of a token is one token. Losers are ordered by (source, arc).
//
//     step           0        1          2
//     entries        0 > 1    2 3 > 4    5 6    winners: each has one
//     losers           1 > 3     3 > 6          tokens are those of the last step
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "decode/lattice.hpp"
#include "decode/streams/saved_search.hpp"

namespace arcbeam::twin {

// The numbers that entries have in a saved state.
inline std::vector<std::uint32_t> saved_numbers(const TokenLog& log,
                                                const std::vector<std::uint32_t>& first_entry) {
    struct Key {
        std::uint32_t epsilons;
        std::uint32_t source;  // its number
        std::uint32_t entry;
    };
    constexpr std::uint32_t kUnknown = 0xffffffffU;
    std::vector<std::uint32_t> numbers(log.size());
    std::vector<std::uint32_t> epsilons(log.size(), kUnknown);
    std::vector<std::uint32_t> path;
    std::vector<Key> keys;
    for (std::size_t step = 0; step + 1 < first_entry.size(); ++step) {
        const std::uint32_t first = first_entry[step];
        const auto within = [&](std::uint32_t source) { return source != kNoSource && source >= first; };
        keys.clear();
        for (std::uint32_t entry = first; entry < first_entry[step + 1]; ++entry) {
            std::uint32_t at = entry;
            for (; epsilons[at] == kUnknown && within(log[at].source); at = log[at].source) {
                path.push_back(at);
            }
            epsilons[at] = epsilons[at] == kUnknown ? 0U : epsilons[at];
            for (; !path.empty(); path.pop_back()) {
                epsilons[path.back()] = epsilons[log[path.back()].source] + 1U;
            }
            keys.push_back({epsilons[entry], 0U, entry});
        }
        std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.epsilons < b.epsilons; });
        for (auto begin = keys.begin(); begin != keys.end();) {
            auto end = begin;
            for (; end != keys.end() && end->epsilons == begin->epsilons; ++end) {
                const std::uint32_t source = log[end->entry].source;
                end->source = source == kNoSource ? 0U : numbers[source];
            }
            std::sort(begin, end, [&](const Key& a, const Key& b) {
                return std::tie(a.source, log[a.entry].arc) < std::tie(b.source, log[b.entry].arc);
            });
            for (; begin != end; ++begin) {
                numbers[begin->entry] = first + static_cast<std::uint32_t>(begin - keys.begin());
            }
        }
    }
    return numbers;
}

// Writes tokens, log and links, of which it takes copies.
template <typename Precedes>
void save_lattice(const Buffer<Token>& tokens, TokenLog log, LinkLog links, Precedes precedes, SavedSearch& saved) {
    links.prune_early(log);
    KeptLinks kept = links.kept(log);
    const std::vector<std::uint32_t> numbers = saved_numbers(log, kept.first_entry);
    saved.keeps_links = true;
    saved.log.resize(log.size());
    saved.links.costs.resize(log.size());
    for (std::uint32_t entry = 0; entry < log.size(); ++entry) {
        const std::uint32_t source = log[entry].source;
        saved.log[numbers[entry]] = {source == kNoSource ? kNoSource : numbers[source], log[entry].arc};
        saved.links.costs[numbers[entry]] = kept.costs[entry];
    }
    for (Link& link : kept.losers) {
        link.source = numbers[link.source];
        link.target = numbers[link.target];
    }
    std::sort(kept.losers.begin(), kept.losers.end(),
              [](const Link& a, const Link& b) { return std::tie(a.source, a.arc) < std::tie(b.source, b.arc); });
    saved.links.losers = std::move(kept.losers);
    saved.links.first_entry = std::move(kept.first_entry);
    saved.links.offsets = std::move(kept.offsets);
    const std::uint32_t first = log.size() - static_cast<std::uint32_t>(tokens.size());
    for (const std::uint32_t token : by_keys(tokens, precedes)) {
        saved.tokens.push_back(tokens[token]);
        saved.entries.push_back(numbers[first + token]);
    }
}

// The reverse, once the log has been restored: `places` are those of the saved entries in it. `links` have begun.
template <typename Graph>
void restore_lattice(const Graph& graph, const SavedSearch& saved, const std::vector<std::uint32_t>& places,
                     const TokenLog& log, LinkLog& links) {
    KeptLinks kept = saved.links;
    for (std::size_t entry = 0; entry < places.size(); ++entry) {
        kept.costs[places[entry]] = saved.links.costs[entry];
    }
    for (Link& link : kept.losers) {
        link.source = places[link.source];
        link.target = places[link.target];
    }
    links.resume(graph, log, kept);
}

}  // namespace arcbeam::twin
