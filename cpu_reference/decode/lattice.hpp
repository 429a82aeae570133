// Stage lattice: the links and tokens within the lattice beam of the best path.
//
// in   every admitted candidate with the slot that it came to; once the frame is complete its frontier, tokens and
//      offset; in the end what each token costs as an end
// out  Found (lattice/number.hpp), and so the lattice
// rule A candidate that is not its slot's winner becomes a link with slack = candidate - winner; it is dropped if
//      that is above lattice_beam. The winner is the entry of the token log. Going back from the ends, the extra of
//      a token is the smallest of its own end extra and of slack + extra(target) over the links that leave it. A
//      link stays iff slack + extra(target) is within lattice_beam, an end iff its end extra is. An early pruning
//      takes the extras of the frontier as 0. Those of other tokens are then at most what they are in the end, so
//      it drops nothing that would stay.
//
// A token's epsilon links must be settled before the links that lead to it. The closure finds them in order of
// epsilon depth, so the links of a step are kept in the order in which they were found and worked through
// backwards. For that, epsilon winners are among them, too, with slack 0:
//
//     links of a step    emitting: losers | epsilon: winners and losers, those that leave smaller depths first
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "decode/backtrack.hpp"
#include "decode/prune.hpp"
#include "decode/tokens.hpp"
#include "lattice/number.hpp"
#include "shared/graph_view.hpp"
#include "shared/slack.hpp"

namespace arcbeam::twin {

using lattice::Lattice;
using lattice::Link;

// What a search keeps of a lattice in addition to its log, for all steps so far: what engines and saved states
// exchange.
struct KeptLinks {
    std::vector<Link> losers;                // links that are not their targets' winners, in any order
    std::vector<std::uint32_t> first_entry;  // [steps + 1]
    std::vector<float> costs;                // [entries]: relative to the best of their step
    std::vector<double> offsets;             // [steps]
};

// Negative in place of a lattice beam: no lattice is requested.
constexpr float kNoLattice = -1.0F;

// Keeps what a lattice needs in addition to the token log. Entries and links are pruned once they have doubled
// since the last pruning, so the memory for long audio is that of its lattice.
class LinkLog {
  public:
    // `collect_above`: entries and links that may gather before the first pruning.
    void begin(float lattice_beam, std::uint32_t collect_above) {
        lattice_beam_ = lattice_beam;
        least_ = collect_above_ = collect_above;
        candidates_.clear();
        links_.clear();
        costs_.clear();
        offsets_.clear();
        settled_ = 0;
        first_link_.fill(1, 0);
        first_entry_.fill(1, 0);
    }

    // An admitted candidate; those of epsilon arcs come in the order of the closure.
    void add(const Candidate& candidate, std::uint32_t slot) {
        candidates_.add({candidate.cost, candidate.arc, candidate.source, slot});
    }

    // Ends a frame, once its tokens are in the token log. `place` gives the place of a slot among them, or
    // kDropped.
    template <typename Place>
    void commit(const Frontier& frontier, const Buffer<Token>& tokens, double offset, Place place, TokenLog& log) {
        const std::uint32_t first = first_entry_[steps()];
        for (const Reached& candidate : candidates_) {
            const std::uint32_t target = place(candidate.slot);
            if (target == kDropped) {
                continue;
            }
            const bool is_epsilon = candidate.source != kNoSource && candidate.source >= first;
            const std::uint32_t source = is_epsilon ? first + place(candidate.source - first) : candidate.source;
            const Candidate& winner = frontier[target];
            const bool has_won = source == winner.source && candidate.arc == winner.arc;
            const float slack = slack_of(candidate.cost, winner.cost);
            if (has_won ? is_epsilon : stays(lattice_beam_, slack)) {
                links_.add({source, first + target, candidate.arc, slack});
            }
        }
        candidates_.clear();
        costs_.make_room(tokens.size());
        for (const Token& token : tokens) {
            costs_.add_unchecked(token.cost);
        }
        offsets_.add(offset);
        first_link_.add(links_.size());
        first_entry_.add(log.size());
        if (log.size() + links_.size() > collect_above_) {
            prune_early(log);
            collect_above_ = std::max(least_, 2 * (log.size() + links_.size()));
        }
    }

    // Goes on, after `begin`, with what has been kept for this log.
    template <typename Graph>
    void resume(const Graph& graph, const TokenLog& log, const KeptLinks& kept) {
        copy(kept.first_entry, first_entry_);
        copy(kept.costs, costs_);
        copy(kept.offsets, offsets_);
        links_.resize(kept.losers.size());
        std::copy(kept.losers.begin(), kept.losers.end(), links_.begin());
        for (std::size_t step = 0; step < steps(); ++step) {
            for (std::uint32_t entry = first_entry_[step]; entry < first_entry_[step + 1]; ++entry) {
                const LogEntry& winner = log[entry];
                if (winner.source == kNoSource) {
                    settled_ = entry;
                } else if (winner.source >= first_entry_[step]) {
                    links_.add({winner.source, entry, winner.arc, 0.0F});
                }
            }
        }
        order_links(graph, log);
        collect_above_ = std::max(least_, 2 * (log.size() + links_.size()));
    }

    // Drops what no path within the beam of any token of the last step needs.
    void prune_early(TokenLog& log) {
        extras_.fill(log.size(), kInfiniteCost);
        std::fill(extras_.begin() + first_entry_[steps() - 1], extras_.end(), 0.0F);
        prune(log);
    }

    // What is kept in addition to the log; losers step by step, by their targets.
    [[nodiscard]] KeptLinks kept(const TokenLog& log) const {
        KeptLinks found;
        for (const Link& link : links_) {
            if (has_lost(log, link)) {
                found.losers.push_back(link);
            }
        }
        found.first_entry.assign(first_entry_.begin(), first_entry_.end());
        found.costs.assign(costs_.begin(), costs_.end());
        found.offsets.assign(offsets_.begin(), offsets_.end());
        return found;
    }

    // Tokens and links have 32-bit numbers.
    [[nodiscard]] bool has_room() const { return links_.size() + costs_.size() < kNoSource; }

    // The deepest entry that the last `alive` entries descend from, or are, is settled. The arcs on the way to it,
    // from the one that was settled before, are added to `arcs`. The log stays as it is, because links refer to it.
    void settle(const TokenLog& log, std::size_t alive, std::vector<std::uint32_t>& arcs) {
        const auto step = std::upper_bound(first_entry_.begin(), first_entry_.end(), settled_) - 1;
        const std::uint32_t first = *step;  // what descends from the settled entry is in its step or a later one
        const std::uint32_t first_alive = log.size() - static_cast<std::uint32_t>(alive);
        Buffer<std::uint32_t>& follower = places_;  // of an entry that tokens descend from
        follower.fill(log.size() - first, kNone);
        for (std::uint32_t token = first_alive; token < log.size(); ++token) {
            for (std::uint32_t at = token; at != settled_;) {
                const std::uint32_t source = log[at].source;
                std::uint32_t& known = follower[source - first];
                const bool is_new = known == kNone;
                known = is_new || known == at ? at : kSeveral;
                if (!is_new) {
                    break;
                }
                at = source;
            }
        }
        while (settled_ < first_alive && follower[settled_ - first] < kSeveral) {
            settled_ = follower[settled_ - first];
            arcs.push_back(log[settled_].arc);
        }
    }

    // The entry that was settled last; the first one, unless any was.
    [[nodiscard]] std::uint32_t settled() const { return settled_; }

    // The lattice of the utterance; `end` is where the path ends.
    template <typename Graph, typename Ends>
    Lattice finish(const Graph& graph, const Ends& ends, const Buffer<Token>& tokens, const End& end,
                   const Path& path, TokenLog& log) {
        const std::uint32_t first = first_entry_[steps() - 1];
        auto best = first + static_cast<std::uint32_t>(end.token);
        if (path.complete) {
            extras_.fill(log.size(), kInfiniteCost);
            end_extras_.resize(tokens.size());
            for (std::size_t i = 0; i < tokens.size(); ++i) {
                const float cost = path.reached_final ? ends.cost(i) : ends.unfinished(i);
                const float extra = end_extra(cost, end.cost);
                end_extras_[i] = stays(lattice_beam_, extra) ? extra : kInfiniteCost;
                extras_[first + i] = end_extras_[i];
            }
            prune(log);
            for (std::size_t i = 0; i < tokens.size(); ++i) {
                if (stays(lattice_beam_, extras_[first + i])) {
                    end_extras_[places_[first + i] - first_entry_[steps() - 1]] = end_extras_[i];
                }
            }
            best = places_[best];
            drop_winners(log);
        }
        const lattice::Found found{
            log.entries(),        costs_.begin(),     log.size(),   links_.begin(),      links_.size(),
            first_entry_.begin(), offsets_.begin(),   steps(),      end_extras_.begin(), best,
            path.total_cost,      path.reached_final, path.complete};
        return lattice::number(graph, found);
    }

    // The same of a sentence that goes on; `log` and this stay as they are.
    template <typename Graph, typename Ends>
    [[nodiscard]] Lattice so_far(const Graph& graph, const Ends& ends, const Buffer<Token>& tokens, const End& end,
                                 const Path& path, const TokenLog& log) const {
        LinkLog links = *this;
        TokenLog entries = log;
        return links.finish(graph, ends, tokens, end, path, entries);
    }

    static constexpr std::uint32_t kDropped = 0xffffffffU;

    [[nodiscard]] std::size_t bytes() const {
        return candidates_.capacity_bytes() + links_.capacity_bytes() + costs_.capacity_bytes() +
               extras_.capacity_bytes() + places_.capacity_bytes();
    }

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;
    static constexpr std::uint32_t kSeveral = 0xfffffffeU;

    struct Reached {
        float cost;
        std::uint32_t arc;
        std::uint32_t source;
        std::uint32_t slot;
    };

    [[nodiscard]] std::size_t steps() const { return offsets_.size(); }

    [[nodiscard]] float extra_by(const Link& link) const {
        return arcbeam::extra_by(link.slack, extras_[link.target]);
    }

    // Drops what does not stay, the extras of the last step given and those of all other entries +inf.
    void prune(TokenLog& log) {
        for (std::size_t step = steps(); step-- > 0;) {
            for (std::size_t i = first_link_[step + 1]; i-- > first_link_[step];) {
                lower(links_[i].source, extra_by(links_[i]));
            }
            for (std::uint32_t entry = first_entry_[step]; entry < first_entry_[step + 1]; ++entry) {
                if (log[entry].source < first_entry_[step]) {  // not that of an epsilon winner, or kNoSource
                    lower(log[entry].source, extras_[entry]);
                }
            }
        }
        drop_entries(log);
        drop_links();
    }

    void lower(std::uint32_t entry, float extra) { extras_[entry] = std::min(extras_[entry], extra); }

    void drop_entries(TokenLog& log) {
        std::uint32_t count = 0;
        places_.resize(log.size());
        for (std::uint32_t entry = 0; entry < log.size(); ++entry) {
            places_[entry] = count;
            costs_[count] = costs_[entry];
            count += stays(lattice_beam_, extras_[entry]) ? 1U : 0U;
        }
        costs_.resize(count);
        for (std::size_t step = 0; step < steps(); ++step) {
            first_entry_[step] = places_[first_entry_[step]];
        }
        first_entry_[steps()] = count;
        settled_ = places_[settled_];
        log.keep(0, places_, count);
    }

    void drop_links() {
        std::size_t count = 0;
        for (std::size_t step = 0; step < steps(); ++step) {
            const std::size_t begin = first_link_[step];
            first_link_[step] = count;
            for (std::size_t i = begin; i < first_link_[step + 1]; ++i) {
                const Link link = links_[i];
                if (stays(lattice_beam_, extra_by(link))) {
                    links_[count++] = {places_[link.source], places_[link.target], link.arc, link.slack};
                }
            }
        }
        first_link_[steps()] = count;
        links_.resize(count);
    }

    static bool has_lost(const TokenLog& log, const Link& link) {
        const LogEntry& winner = log[link.target];
        return link.source != winner.source || link.arc != winner.arc;
    }

    // Leaves the losers alone.
    void drop_winners(const TokenLog& log) {
        std::size_t count = 0;
        for (const Link& link : links_) {
            if (has_lost(log, link)) {
                links_[count++] = link;
            }
        }
        links_.resize(count);
    }

    // Puts the links of each step into the order in which the closure finds them.
    template <typename Graph>
    void order_links(const Graph& graph, const TokenLog& log) {
        std::vector<std::pair<std::uint64_t, Link>> ordered;
        ordered.reserve(links_.size());
        first_link_.fill(steps() + 1, 0);
        for (const Link& link : links_) {
            const auto next_step = std::upper_bound(first_entry_.begin(), first_entry_.end(), link.target);
            const auto step = static_cast<std::uint64_t>(next_step - first_entry_.begin()) - 1U;
            std::uint64_t place = 0;  // emitting links come first
            if (link.source >= first_entry_[step]) {
                const std::uint32_t arc = log[link.source].arc;
                const std::uint32_t state = arc == kNoArc ? graph.start : graph.targets[arc].next_state;
                place = 1U + graph.states[state].depth;
            }
            ordered.push_back({step << 32U | place, link});
            ++first_link_[step + 1];
        }
        std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        std::transform(ordered.begin(), ordered.end(), links_.begin(), [](const auto& one) { return one.second; });
        std::partial_sum(first_link_.begin(), first_link_.end(), first_link_.begin());
    }

    template <typename T>
    static void copy(const std::vector<T>& from, Buffer<T>& to) {
        to.resize(from.size());
        std::copy(from.begin(), from.end(), to.begin());
    }

    float lattice_beam_ = 0.0F;
    Buffer<Reached> candidates_;         // of the frame
    Buffer<Link> links_;                 // sources and targets are entries of the token log
    Buffer<float> costs_;                // [entries]: relative to the best of their step
    Buffer<double> offsets_;             // [steps]
    Buffer<std::size_t> first_link_;     // [steps + 1]: the links that lead to the tokens of each step
    Buffer<std::uint32_t> first_entry_;  // [steps + 1]
    Buffer<float> extras_;               // [entries], while they are pruned
    Buffer<std::uint32_t> places_;       // [entries]: where they go when they are pruned
    Buffer<float> end_extras_;           // [entries of the last step]
    std::uint32_t settled_ = 0;          // an entry that all tokens descend from
    std::size_t least_ = 0;
    std::size_t collect_above_ = 0;
};

}  // namespace arcbeam::twin
