// Stage prune: the frame is complete; its survivors become tokens and enter the token log. The rule is the twin's,
// cpu_reference/decode/prune.hpp. Two steps with a barrier between and after:
//
// find_sources  names the source of every winner, and finds the best survivor
// commit        writes tokens (costs relative to the best) and log entries, and frees the table
#pragma once

#include "decode/team.cuh"
#include "decode/workspace.cuh"

namespace arcbeam {

template <class Team>
ARCBEAM_DEVICE void find_sources(std::uint32_t num_candidates, std::uint32_t num_states, const Workspace& work,
                                 std::uint32_t* best_survivor) {
    for (std::uint32_t i = Team::rank(); i < num_candidates; i += Team::size()) {
        const std::uint32_t place = work.candidate_place[i];
        // An arc leaves one token only, so one candidate at most is the winner.
        if (place != kNoIndex && work.table_best[place] == work.candidate[i]) {
            const std::uint32_t index = work.table_index[place];
            work.source[index] = work.candidate_source[i];
        }
    }
    std::uint32_t best = kNoCost;
    for (std::uint32_t index = Team::rank(); index < num_states; index += Team::size()) {
        const std::uint32_t place = work.place[index];
        const std::uint64_t winner = work.table_best[place];
        const auto key = static_cast<std::uint32_t>(winner >> 32U);
        best = key < best ? key : best;
    }
    best = simt::reduce_min(simt::warp_mask(), best);
    if (simt::lane() == 0U) {
        simt::atomic_min<Team::kScope>(best_survivor, best);
    }
}

constexpr std::uint32_t kMilestoneFrames = 32U;  // of so many frames the survivors of one become milestones

// Where a frame enters the token log.
struct LogPlace {
    LogEntry* log;
    std::uint32_t first;      // entry of this frame
    std::uint32_t first_old;  // of the tokens before
    Milestone* milestones;    // null: this frame makes none
    std::uint32_t num_milestones;
};

// The milestone that a new token descends from: that of the old token at the begin of its epsilon arcs.
ARCBEAM_DEVICE std::uint32_t inherited_milestone(std::uint32_t source, const Workspace& work, const Tokens& old,
                                                 const LogPlace& place) {
    while (source != kNoIndex && source >= place.first) {
        source = work.source[source - place.first];
    }
    return source == kNoIndex ? kNoIndex : static_cast<std::uint32_t>(old.milestone[source - place.first_old]);
}

template <class Team>
ARCBEAM_DEVICE void commit(std::uint32_t num_states, float best, const Workspace& work, const Tokens& old,
                           const Tokens& tokens, const LogPlace& into) {
    for (std::uint32_t index = Team::rank(); index < num_states; index += Team::size()) {
        const std::uint32_t place = work.place[index];
        const std::uint64_t winner = work.table_best[place];
        tokens.state[index] = work.state[index];
        tokens.cost[index] = rescale(packed_cost(winner), best);
        tokens.first_emitting[index] = work.first_emitting[index];
        tokens.arcs_end[index] = work.arcs_end[index];
        tokens.smallest_weight[index] = work.smallest_weight[index];
        const std::uint32_t entry = into.first + index;
        const std::uint32_t source = work.source[index];
        simt::store_streaming(into.log + entry, LogEntry{source, packed_arc(winner)});
        std::uint32_t milestone = inherited_milestone(source, work, old, into);
        if (into.milestones != nullptr) {
            simt::store_streaming(into.milestones + into.num_milestones + index, Milestone{entry, milestone});
            milestone = into.num_milestones + index;
        }
        tokens.milestone[index] = milestone;
        work.table_state[place] = kNoIndex;
        work.table_best[place] = kNoPacked;
    }
}

}  // namespace arcbeam
