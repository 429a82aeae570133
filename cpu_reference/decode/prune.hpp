// Stage prune: the frame is complete; its survivors become tokens and enter the token log.
//
// in   frontier (winners, closure included)
// out  tokens with costs relative to the best survivor; the log grown by one entry a token, in slot order;
//      returns best, which the caller adds to the utterance's float64 offset
//
// TokenLog drops what no token descends from once it has doubled since it was last collected, so that long audio
// takes memory by what is alive, not by what ever was. Order is kept; answers do not change.
#pragma once

#include <algorithm>
#include <limits>

#include "decode/recombine.hpp"
#include "decode/tokens.hpp"

namespace arcbeam::twin {

class TokenLog {
  public:
    // `collect_above`: entries that may gather before the first collection.
    void begin(std::uint32_t collect_above) {
        entries_.clear();
        least_ = collect_above;
        collect_above_ = collect_above;
    }

    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
    const LogEntry& operator[](std::uint32_t i) const { return entries_[i]; }
    [[nodiscard]] bool has_room(std::size_t extra) const { return entries_.size() + extra < kNoSource; }

    void append(const Frontier& frontier) {
        entries_.make_room(frontier.size());
        for (const Candidate& winner : frontier) {
            entries_.add_unchecked({winner.source, winner.arc});
        }
    }

    // Keeps the last `alive` entries and what they descend from.
    void collect_if_due(std::size_t alive) {
        if (entries_.size() <= collect_above_) {
            return;
        }
        kept_.fill(entries_.size(), 0);
        for (std::size_t i = entries_.size() - alive; i < entries_.size(); ++i) {
            for (std::size_t at = i; kept_[at] == 0; at = entries_[at].source) {
                kept_[at] = 1;
                if (entries_[at].source == kNoSource) {
                    break;
                }
            }
        }
        std::uint32_t count = 0;
        for (std::uint32_t& kept : kept_) {  // from a mark to the entry's new index
            const std::uint32_t mark = kept;
            kept = count;
            count += mark;
        }
        for (std::uint32_t i = 0; i < entries_.size(); ++i) {
            const std::uint32_t following = i + 1 < entries_.size() ? kept_[i + 1] : count;
            if (following != kept_[i]) {
                const LogEntry& entry = entries_[i];
                entries_[kept_[i]] = {entry.source == kNoSource ? kNoSource : kept_[entry.source], entry.arc};
            }
        }
        entries_.resize(count);
        collect_above_ = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(std::max<std::uint64_t>(least_, 2ULL * count), kNoSource / 2));
    }

    [[nodiscard]] std::size_t bytes() const { return entries_.capacity_bytes() + kept_.capacity_bytes(); }

  private:
    Buffer<LogEntry> entries_;
    Buffer<std::uint32_t> kept_;
    std::uint32_t least_ = 0;
    std::uint32_t collect_above_ = 0;
};

inline float prune(const Frontier& frontier, Buffer<Token>& tokens, TokenLog& log) {
    float best = std::numeric_limits<float>::infinity();
    for (const Candidate& winner : frontier) {
        best = std::min(best, winner.cost);
    }
    tokens.resize(frontier.size());
    for (std::size_t i = 0; i < frontier.size(); ++i) {
        tokens[i] = {frontier[i].state, rescale(frontier[i].cost, best)};
    }
    log.append(frontier);
    log.collect_if_due(frontier.size());
    return best;
}

}  // namespace arcbeam::twin
