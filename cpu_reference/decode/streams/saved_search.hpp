// The state of a search between two chunks as plain arrays, the same whatever engine, threads and chunks led to it
// (law 10).
//
// Tokens are sorted by their keys. Histories are not among the arrays: the words of a token's path give them.
// Entries of the log are numbered by the paths of the tokens, in the order of these, each from the beginning:
//
//     settled     log                          tokens
//     . . . . .   0 > 1 > 2 > 3 > 4            4, 6, 5: their entries
//                      \       \> 6
//                       > 5                    a source has a smaller number than what follows it
//
// A stream that keeps links saves its lattice instead (saved_lattice.hpp): the log then begins with the sentence,
// and nothing is settled before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "decode/buffer.hpp"
#include "decode/lattice.hpp"
#include "decode/prune.hpp"
#include "decode/tokens.hpp"

namespace arcbeam::twin {

struct SavedSearch {
    std::vector<std::uint32_t> settled;  // the arcs before the log
    std::vector<LogEntry> log;           // the first one, and no other, has no source
    std::vector<Token> tokens;
    std::vector<std::uint32_t> entries;  // [tokens]: in the log
    double offset = 0.0;
    std::uint64_t frames = 0;       // of the sentence
    std::uint64_t dead_frames = 0;  // of these, since the search died
    std::uint32_t fired = 0;        // the rule that has ended the sentence
    bool alive = true;
    bool keeps_links = false;
    bool ended = false;  // and has given its lattice: of the search nothing is left
    KeptLinks links;     // losers by (source, arc)
};

// The tokens by graph state; `precedes` orders those of one state by their histories.
template <typename Precedes>
std::vector<std::uint32_t> by_keys(const Buffer<Token>& tokens, Precedes precedes) {
    std::vector<std::uint32_t> order(tokens.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return tokens[a].state < tokens[b].state || (tokens[a].state == tokens[b].state && precedes(a, b));
    });
    return order;
}

// Writes tokens and log, after whose settled entries the tokens' paths part. `settled`: the entry after which the
// log begins; by default the one without a source.
template <typename Precedes>
void save_paths(const Buffer<Token>& tokens, const TokenLog& log, Precedes precedes, SavedSearch& saved,
                std::uint32_t settled = kNoSource) {
    const std::uint32_t first = log.size() - static_cast<std::uint32_t>(tokens.size());
    std::vector<std::uint32_t> numbers(log.size(), kNoSource);
    if (settled != kNoSource) {
        numbers[settled] = 0;
        saved.log.push_back({kNoSource, kNoArc});
    }
    std::vector<std::uint32_t> path;
    for (const std::uint32_t token : by_keys(tokens, precedes)) {
        path.clear();
        std::uint32_t at = first + token;
        for (; at != kNoSource && numbers[at] == kNoSource; at = log[at].source) {
            path.push_back(at);
        }
        std::uint32_t source = at == kNoSource ? kNoSource : numbers[at];
        for (; !path.empty(); path.pop_back()) {
            numbers[path.back()] = static_cast<std::uint32_t>(saved.log.size());
            saved.log.push_back({source, log[path.back()].arc});
            source = numbers[path.back()];
        }
        saved.tokens.push_back(tokens[token]);
        saved.entries.push_back(source);
    }
}

// The reverse. The entries of the tokens come to the end of the log, which has begun and is empty. Returns where
// each saved entry is now.
inline std::vector<std::uint32_t> restore_paths(const SavedSearch& saved, Buffer<Token>& tokens, TokenLog& log) {
    std::vector<std::uint32_t> places(saved.log.size(), 0U);
    for (const std::uint32_t entry : saved.entries) {
        places[entry] = kNoSource;
    }
    std::uint32_t others = 0;
    for (std::uint32_t& place : places) {
        place = place == kNoSource ? kNoSource : others++;
    }
    for (std::uint32_t i = 0; i < saved.entries.size(); ++i) {
        places[saved.entries[i]] = others + i;
    }
    Buffer<LogEntry> entries;
    entries.resize(saved.log.size());
    for (std::size_t i = 0; i < saved.log.size(); ++i) {
        const LogEntry& entry = saved.log[i];
        entries[places[i]] = {entry.source == kNoSource ? kNoSource : places[entry.source], entry.arc};
    }
    log.resume(entries);
    tokens.resize(saved.tokens.size());
    std::copy(saved.tokens.begin(), saved.tokens.end(), tokens.begin());
    return places;
}

}  // namespace arcbeam::twin
