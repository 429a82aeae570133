// Stage prune: the frame is complete; its survivors become tokens and enter the token log. The rule is the twin's,
// cpu_reference/decode/prune.hpp. There are two steps, with a barrier between them and one after:
//
// find_sources  names the source of every winner, and finds the best survivor
// commit        writes tokens (costs relative to the best) and log entries, and frees the table
#pragma once

#include "decode/launch/team.cuh"
#include "decode/workspace.cuh"

namespace arcbeam {

// What find_sources() does with candidates that lost: nothing.
struct ForgetLosers {
    static constexpr bool kOfWarps = false;  // whether all threads of a warp come to note()

    template <std::uint32_t kEach>
    ARCBEAM_DEVICE void note(const Candidate (&)[kEach], const std::uint64_t (&)[kEach]) const {}
};

// An arc leaves one token only, so at most one candidate of a state is the winner; and the best of all wins.
template <class Team, class Losers>
ARCBEAM_DEVICE void find_sources(std::uint32_t num_candidates, const Workspace& work, std::uint32_t* best_survivor,
                                 const Losers& losers) {
    constexpr std::uint32_t kEach = 4U;
    std::uint32_t best = kNoCost;
    const std::uint32_t of_warps = (num_candidates + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    const std::uint32_t end = Losers::kOfWarps ? of_warps : num_candidates;
    for (std::uint32_t first = Team::rank(); first < end; first += kEach * Team::size()) {
        Candidate candidate[kEach];
        std::uint64_t winner[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            candidate[k] = Candidate{kNoPacked, kNoIndex, kNoIndex};
            if (i < num_candidates) {
                candidate[k] = work.candidate[i];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t place = candidate[k].place;
            winner[k] = kNoPacked;
            if (place != kNoIndex) {
                winner[k] = work.table_best[place];
            }
            if (place != kNoIndex && winner[k] == candidate[k].packed) {
                const std::uint32_t index = work.table_index[place];
                simt::store(&work.reached.at(index)->source, candidate[k].source);
                const auto key = static_cast<std::uint32_t>(candidate[k].packed >> 32U);
                best = key < best ? key : best;
            }
        }
        losers.note(candidate, winner);
    }
    best = simt::reduce_min(simt::warp_mask(), best);
    if (simt::warp_thread() == 0U && best != kNoCost) {
        simt::atomic_min<Team::kScope>(best_survivor, best);
    }
}

constexpr std::uint32_t kMilestoneFrames = 32U;  // in one of every 32 frames the survivors become milestones

// Where a frame enters the token log.
struct LogPlace {
    LogEntry* log;
    std::uint32_t first;      // entry of this frame
    std::uint32_t first_old;  // entry of the tokens before
    Milestone* milestones;    // null: this frame makes none
    std::uint32_t num_milestones;
    float* costs = nullptr;  // of the entries, for a lattice
};

// The milestone that a new token descends from: that of the old token at the beginning of its epsilon arcs.
ARCBEAM_DEVICE std::uint32_t inherited_milestone(std::uint32_t source, const Workspace& work, const Tokens& old,
                                                 const LogPlace& place) {
    while (source != kNoIndex && source >= place.first) {
        source = simt::load(&work.reached.at(source - place.first)->source);
    }
    return source == kNoIndex ? kNoIndex : static_cast<std::uint32_t>(old.milestone[source - place.first_old]);
}

template <class Team, bool lattices = false>
ARCBEAM_DEVICE void commit(std::uint32_t num_states, float best, const Workspace& work, const Tokens& old,
                           const Tokens& tokens, const LogPlace& into) {
    constexpr std::uint32_t kEach = 2U;
    for (std::uint32_t first = Team::rank(); first < num_states; first += kEach * Team::size()) {
        Reached reached[kEach];
        StateArcs arcs[kEach];
        std::uint64_t winner[kEach];
        std::uint32_t milestone[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t index = first + k * Team::size();
            if (index < num_states) {
                reached[k] = work.reached[index];
                arcs[k] = work.arcs[index];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t index = first + k * Team::size();
            if (index < num_states) {
                winner[k] = work.table_best[reached[k].place];
                milestone[k] = inherited_milestone(reached[k].source, work, old, into);
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t index = first + k * Team::size();
            if (index < num_states) {
                const std::uint32_t entry = into.first + index;
                const float cost = rescale(packed_cost(winner[k]), best);
                tokens.token[index] =
                    Token{cost, arcs[k].first_emitting, arcs[k].arcs_end, arcs[k].smallest_weight};
                tokens.state[index] = reached[k].state;
                simt::store_streaming(into.log + entry, LogEntry{reached[k].source, packed_arc(winner[k])});
                if (into.milestones != nullptr) {
                    simt::store_streaming(into.milestones + into.num_milestones + index,
                                          Milestone{entry, milestone[k]});
                    milestone[k] = into.num_milestones + index;
                }
                tokens.milestone[index] = milestone[k];
                if constexpr (lattices) {
                    simt::store_streaming(into.costs + entry, cost);
                }
                work.table_state[reached[k].place] = kNoIndex;
                work.table_best[reached[k].place] = kNoPacked;
            }
        }
    }
}

}  // namespace arcbeam
