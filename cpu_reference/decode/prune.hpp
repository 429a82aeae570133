// Stage prune: the frame is complete; its survivors become tokens and enter the token log.
//
// in   frontier (winners, closure included)
// out  tokens with costs relative to the best survivor; the log grown by one entry a token, in slot order;
//      returns best, which the caller adds to the utterance's float64 offset
//
// TokenLog drops entries that no token descends from, once it has doubled since its last collection. So the memory
// for long audio depends on what is alive, not on the length. The order is kept, and answers do not change. Every
// token descends from each of the first `settled()` entries, which are not examined again:
//
//     settled                    young
//     start > > > > > > | > ancestor of all > > > token
//                       |               > > > > > token        (entries of one frame may be in any order)
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "decode/recombine.hpp"
#include "decode/tokens.hpp"

namespace arcbeam::twin {

class TokenLog {
  public:
    static constexpr std::uint32_t kNever = 0xffffffffU;

    // `collect_above`: entries that may gather before the first collection, or kNever.
    void begin(std::uint32_t collect_above) {
        entries_.clear();
        settled_ = 0;
        least_ = collect_above;
        collect_above_ = collect_above;
    }

    // Goes on with the entries of another log, after `begin`.
    void resume(const Buffer<LogEntry>& entries) {
        entries_.resize(entries.size());
        std::copy(entries.begin(), entries.end(), entries_.begin());
    }

    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
    [[nodiscard]] std::uint32_t settled() const { return settled_; }
    const LogEntry& operator[](std::uint32_t i) const { return entries_[i]; }
    [[nodiscard]] const LogEntry* entries() const { return entries_.begin(); }
    [[nodiscard]] bool has_room(std::size_t extra) const { return entries_.size() + extra < kNoSource; }

    void append(const Frontier& frontier) {
        entries_.make_room(frontier.size());
        for (const Candidate& winner : frontier) {
            entries_.add_unchecked({winner.source, winner.arc});
        }
    }

    // Keeps the last `alive` entries and all entries they descend from, if the log has grown long.
    void collect_if_due(std::size_t alive) {
        if (entries_.size() > collect_above_) {
            collect(alive);
        }
    }

    // The deepest entry that the last `alive` entries descend from, or are, becomes the log's only one without a
    // source. The arcs on the way to it are taken out: they are added to `arcs`.
    void take_settled(std::size_t alive, std::vector<std::uint32_t>& arcs) {
        collect(alive);
        const std::uint32_t first_alive = size() - static_cast<std::uint32_t>(alive);
        Buffer<std::uint32_t>& follower = kept_;  // of an entry, if it has one
        follower.fill(size(), kNone);
        std::uint32_t deepest = 0;
        for (std::uint32_t i = 0; i < size(); ++i) {
            const std::uint32_t source = entries_[i].source;
            if (source == kNoSource) {
                deepest = i;
            } else {
                follower[source] = follower[source] == kNone ? i : kSeveral;
            }
        }
        std::uint32_t places = 0;
        while (deepest < first_alive && follower[deepest] < kSeveral) {
            const std::uint32_t next = follower[deepest];
            follower[deepest] = kSettled;
            deepest = next;
            arcs.push_back(entries_[deepest].arc);
        }
        entries_[deepest] = {kNoSource, kNoArc};
        for (std::uint32_t& entry : follower) {
            const bool stays = entry != kSettled;
            entry = places;
            places += stays ? 1U : 0U;
        }
        settled_ = 0;
        keep(0, follower, places);
    }

    // Of the entries from `first` on, keeps those whose place is not that of the next one, too. `count` will
    // remain.
    void keep(std::uint32_t first, const Buffer<std::uint32_t>& places, std::uint32_t count) {
        const auto young = static_cast<std::uint32_t>(places.size());
        for (std::uint32_t i = 0; i < young; ++i) {
            const std::uint32_t following = i + 1 < young ? places[i + 1] : count;
            if (following != places[i]) {
                const LogEntry& entry = entries_[first + i];
                const bool stays = entry.source + 1U <= first;  // also kNoSource
                entries_[places[i]] = {stays ? entry.source : places[entry.source - first], entry.arc};
            }
        }
        entries_.resize(count);
    }

    [[nodiscard]] std::size_t bytes() const { return entries_.capacity_bytes() + kept_.capacity_bytes(); }

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;
    static constexpr std::uint32_t kSettled = 0xfffffffeU;
    static constexpr std::uint32_t kSeveral = 0xfffffffdU;

    void collect(std::size_t alive) {
        const std::uint32_t last = size();
        const std::uint32_t meeting = mark(last - static_cast<std::uint32_t>(alive));
        std::uint32_t count = settled_;
        for (std::uint32_t& kept : kept_) {  // first a mark, then the entry's new index
            const std::uint32_t mark = kept;
            kept = count;
            count += mark;
        }
        const std::uint32_t met = meeting == last ? count : place(meeting);
        keep(settled_, kept_, count);
        settle(std::min(met, count - static_cast<std::uint32_t>(alive)));
        collect_above_ = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(std::max<std::uint64_t>(least_, 2ULL * count), kNoSource / 2));
    }

    // Also false for kNoSource.
    [[nodiscard]] bool is_young(std::uint32_t entry) const { return entry + 1U > settled_; }

    [[nodiscard]] std::uint32_t place(std::uint32_t young) const { return kept_[young - settled_]; }

    // Marks the entries that the entries from `first` on descend from. Returns the first entry at which two of
    // their paths meet; size() if there is none.
    std::uint32_t mark(std::uint32_t first) {
        kept_.fill(entries_.size() - settled_, 0);
        std::uint32_t meeting = size();
        for (std::uint32_t i = first; i < size(); ++i) {
            for (std::uint32_t at = i; is_young(at); at = entries_[at].source) {
                if (kept_[at - settled_] != 0) {
                    meeting = std::min(meeting, at);
                    break;
                }
                kept_[at - settled_] = 1;
            }
        }
        return meeting;
    }

    // Each of the first `most` entries is the source of at most one other entry, and none belongs to a token. They
    // form one path if all their sources are among them, because only one entry of a log has no source; otherwise
    // fewer are settled.
    void settle(std::uint32_t most) {
        for (std::uint32_t i = most; i-- > settled_;) {
            if (entries_[i].source != kNoSource && entries_[i].source >= most) {
                most = i;
            }
        }
        settled_ = most;
    }

    Buffer<LogEntry> entries_;
    Buffer<std::uint32_t> kept_;  // [young entries]
    std::uint32_t settled_ = 0;
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
