// The best n hypotheses of each state: lists that are too long are cut when they are complete. The rule is the
// twin's, Hypotheses::cut in cpu_reference/decode/hypotheses.hpp.
//
// rank_lists  puts the hypotheses of such lists side by side
// cut_lists   gives each list to a warp, which first drops what cannot be among the best n; few are left to compare
#pragma once

#include "rescore/tables.cuh"

namespace arcbeam {

// Puts the hypotheses of states that have more than n of them side by side. It does so for the states of this
// depth, whose lists are complete. Barriers are passed, one at the end. Returns how many states of any depth have
// too many; kNoIndex if there is too little room.
template <class Team>
ARCBEAM_DEVICE std::uint32_t rank_lists(std::uint32_t depth, std::uint32_t num_hypotheses,
                                        const RescoringWorkspace& work, RescoringControl& control) {
    constexpr std::uint32_t kEach = 4U;
    const std::uint32_t num_long = simt::load(&control.num_long);
    for (std::uint32_t i = Team::rank(); i < num_long; i += Team::size()) {
        const std::uint64_t entry = work.ranking()[work.most_ranked - 1U - i];
        if (static_cast<std::uint32_t>(entry >> 32U) != depth) {
            continue;
        }
        const auto list = static_cast<std::uint32_t>(entry);
        const std::uint32_t members = work.list_count()[list] + 1U;
        const std::uint32_t start = simt::atomic_add<Team::kScope>(&control.num_ranked, members + 1U);
        if (start + members + 1U + num_long > work.most_ranked) {
            simt::store_relaxed<Team::kScope>(&control.unranked, 1U);
            continue;
        }
        work.ranking()[start] = static_cast<std::uint64_t>(members) << 32U;
        work.list_count()[list] = start | kInRanking;
    }
    Team::barrier();
    if (simt::load(&control.unranked) != 0U) {
        return kNoIndex;
    }
    for (std::uint32_t first = Team::rank(); first < num_hypotheses; first += kEach * Team::size()) {
        std::uint32_t list[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            list[k] = kNoIndex;
            if (i < num_hypotheses && work.kept()[i] == kUndecided) {
                list[k] = work.list()[i];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            const std::uint32_t start = list[k] != kNoIndex ? work.list_count()[list[k]] : 0U;
            if ((start & kInRanking) != 0U) {
                auto* const taken =
                    reinterpret_cast<std::uint32_t*>(work.ranking().at(start & ~kInRanking));  // the lower half
                const std::uint32_t at = simt::atomic_add<Team::kScope>(taken, 1U);
                const std::uint64_t best = work.key_best()[static_cast<std::uint32_t>(work.place()[i])];
                work.ranking()[(start & ~kInRanking) + 1U + at] = (best >> 32U) << 32U | i;
                work.kept()[i] = kRanked;
            }
        }
    }
    Team::barrier();
    return num_long;
}

// The part of a list that is left in the ranking: its entries [first, first + count).
struct Ranked {
    std::uint32_t first;
    std::uint32_t count;
};

// A warp cuts what cannot be among the best n of a list, and moves the others to the front. Each of n threads holds
// one hypothesis, and none of these costs more than the bound.
template <class Team, class Work>
ARCBEAM_DEVICE Ranked prune_worst(std::uint32_t start, std::uint32_t n, const Work& work) {
    constexpr std::uint32_t kEach = 4U;
    const Array<std::uint64_t> ranking = work.ranking();
    const auto members = static_cast<std::uint32_t>(ranking[start] >> 32U);
    const std::uint32_t first = start + 1U;
    if (members <= simt::kWarpSize || n > simt::kWarpSize) {
        return {first, members};
    }
    const std::uint32_t lane = simt::warp_thread();
    std::uint32_t least = kNoCost;
    for (std::uint32_t begin = lane; begin < members; begin += kEach * simt::kWarpSize) {
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = begin + k * simt::kWarpSize;
            const std::uint64_t entry = i < members ? static_cast<std::uint64_t>(ranking[first + i]) : kNoPacked;
            const auto cost = static_cast<std::uint32_t>(entry >> 32U);
            least = cost < least ? cost : least;
        }
    }
    std::uint32_t bound = 0U;
    for (std::uint32_t i = 0U; i < n; ++i) {
        bound = simt::reduce_min(simt::kAllThreads, least);
        const std::uint32_t lanes = simt::ballot(simt::kAllThreads, least == bound);
        least = simt::is_leader(lanes) ? kNoCost : least;
    }
    std::uint32_t count = 0U;
    for (std::uint32_t begin = 0U; begin < members; begin += kEach * simt::kWarpSize) {
        std::uint64_t entry[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = begin + k * simt::kWarpSize + lane;
            entry[k] = i < members ? static_cast<std::uint64_t>(ranking[first + i]) : kNoPacked;
        }
        simt::warp_sync(simt::kAllThreads);  // all have read before anything is overwritten
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const bool is_near = static_cast<std::uint32_t>(entry[k] >> 32U) <= bound && entry[k] != kNoPacked;
            const std::uint32_t near = simt::ballot(simt::kAllThreads, is_near);
            if (is_near) {
                ranking[first + count + simt::place_in(near)] = entry[k];
            } else if (entry[k] != kNoPacked) {
                const auto index = static_cast<std::uint32_t>(entry[k]);
                simt::atomic_exchange<Team::kScope>(work.kept().at(index), kNoIndex);
            }
            count += simt::popcount(near);
        }
    }
    simt::warp_sync(simt::kAllThreads);
    return {first, count};
}

// Whether entry `at` is among the best n of these, by (cost, history). Counts the entries before it.
template <class Work, class Params>
ARCBEAM_DEVICE bool is_among_best(const Params& params, const Ranked& ranked, std::uint32_t at, const Work& work) {
    constexpr std::uint32_t kEach = 4U;
    const std::uint32_t n = params.hypotheses_per_state;
    const std::uint64_t own = work.ranking()[ranked.first + at];
    const auto cost = static_cast<std::uint32_t>(own >> 32U);
    std::uint32_t before = 0U;
    for (std::uint32_t first = 0U; first < ranked.count && before < n; first += kEach) {
        std::uint64_t others[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            others[k] = kNoPacked;
            if (first + k < ranked.count) {
                others[k] = work.ranking()[ranked.first + first + k];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const auto key = static_cast<std::uint32_t>(others[k] >> 32U);
            before += key < cost ? 1U : 0U;
            if (key == cost && others[k] != own) {
                const std::uint32_t place = work.place()[static_cast<std::uint32_t>(others[k])];
                const std::uint32_t own_place = work.place()[static_cast<std::uint32_t>(own)];
                before += precedes(params, work.history(place), work.history(own_place)) ? 1U : 0U;
            }
        }
    }
    return before < n;
}

// Cuts the lists of this depth that have been ranked; a warp takes one list. Calls keep(hypothesis, stays) in all
// threads of the warp for the entries that are left; the others are cut. Other threads may read `kept` meanwhile,
// so it is changed by atomics.
template <class Team, class Keep, class Work, class Params>
ARCBEAM_DEVICE void cut_lists(const Params& params, std::uint32_t depth, std::uint32_t num_long, const Work& work,
                              const Keep& keep) {
    for (std::uint32_t i = Team::rank() / simt::kWarpSize; i < num_long; i += Team::size() / simt::kWarpSize) {
        const std::uint64_t entry = work.ranking()[work.most_ranked - 1U - i];
        if (static_cast<std::uint32_t>(entry >> 32U) != depth) {
            continue;
        }
        const std::uint32_t start = work.list_count()[static_cast<std::uint32_t>(entry)] & ~kInRanking;
        const Ranked ranked = prune_worst<Team>(start, params.hypotheses_per_state, work);
        for (std::uint32_t first = 0U; first < ranked.count; first += simt::kWarpSize) {
            const std::uint32_t at = first + simt::warp_thread();
            const bool stays = at < ranked.count && is_among_best(params, ranked, at, work);
            const std::uint64_t own =
                at < ranked.count ? static_cast<std::uint64_t>(work.ranking()[ranked.first + at]) : kNoPacked;
            keep(static_cast<std::uint32_t>(own), stays);
        }
    }
}

}  // namespace arcbeam
