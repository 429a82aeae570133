// What a search knows between two chunks as plain arrays, the same whatever engine, threads and chunks led to it
// (law 10).
//
// Tokens are sorted by their keys. Histories are not among the arrays: the words of a token's path give them.
// Entries of the log are numbered by the paths of the tokens, in the order of these, each from the beginning:
//
//     settled     log                          tokens
//     . . . . .   0 > 1 > 2 > 3 > 4            4, 6, 5: their entries
//                      \       \> 6
//                       > 5                    a source has a smaller number than what follows it
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "decode/buffer.hpp"
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
};

// Writes tokens and log, behind whose settled entries the tokens' paths part. `precedes` orders tokens of one state
// by their histories. `settled`: the entry behind which the log begins; by default the one without a source.
template <typename Precedes>
void save_paths(const Buffer<Token>& tokens, const TokenLog& log, Precedes precedes, SavedSearch& saved,
                std::uint32_t settled = kNoSource) {
    const auto count = static_cast<std::uint32_t>(tokens.size());
    const std::uint32_t first = log.size() - count;
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return tokens[a].state < tokens[b].state || (tokens[a].state == tokens[b].state && precedes(a, b));
    });
    std::vector<std::uint32_t> numbers(log.size(), kNoSource);
    if (settled != kNoSource) {
        numbers[settled] = 0;
        saved.log.push_back({kNoSource, kNoArc});
    }
    std::vector<std::uint32_t> path;
    for (const std::uint32_t token : order) {
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

// The reverse. The entries of the tokens come to the end of the log, which has begun and is empty.
inline void restore_paths(const SavedSearch& saved, Buffer<Token>& tokens, TokenLog& log) {
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
}

}  // namespace arcbeam::twin
