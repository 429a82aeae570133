// Stage lookup where the large model is in host memory, in buckets (shared/lm_buckets.hpp). Eight threads look a
// word up together. They wait for the bus twice: for the chain of the history, and for all buckets of its states.
//
// in   a history and a label for each group of eight threads of the warp; all threads of the warp call this
// out  the same as lm_step() of lm_view.hpp, except `from`
//
// In a state's two buckets each of the eight threads reads one entry. The threads load the entries of all states
// before they examine any. Chains of more than kLevels states, of models beyond order 13, take two more waits for
// every 12 states.
#pragma once

#include "rescore/lanes.cuh"
#include "rescore/rescoring_search.hpp"

namespace arcbeam {

constexpr std::uint32_t kBucketLanes = 2U * kLmBucketEntries;
constexpr std::uint32_t kFewLevels = 4U;  // states of a chain: enough for models up to order 5
constexpr std::uint32_t kManyLevels = 12U;
constexpr std::uint32_t kLinksASector = 4U;

using BucketGroup = Lanes<kBucketLanes>;

// A part of a chain. Each thread has one link of it, or two.
template <std::uint32_t kLevels>
struct ChainPart {
    LmLink link[(kLevels + kBucketLanes - 1U) / kBucketLanes];

    ARCBEAM_DEVICE void load(const LmBuckets& lm, std::uint32_t state, std::uint32_t first, bool seeks,
                             std::uint32_t& reads) {
        const LmLink* const chain = lm.chains + static_cast<std::uint64_t>(state) * lm.links;
        for (std::uint32_t k = 0U; k < kLevels; k += kBucketLanes) {
            const std::uint32_t level = k + BucketGroup::rank();
            link[k / kBucketLanes] = LmLink{kLmEmptyHistory, 0.0F};
            if (seeks && state != kLmEmptyHistory && level < kLevels && first + level < lm.links) {
                link[k / kBucketLanes] = simt::load_readonly(chain + first + level);
                reads += level % kLinksASector == 0U ? 1U : 0U;
            }
        }
    }
    ARCBEAM_DEVICE std::uint32_t state(std::uint32_t level, const BucketGroup& together) const {
        return together.from(link[level / kBucketLanes].state, level % kBucketLanes);
    }
    ARCBEAM_DEVICE float weight(std::uint32_t level, const BucketGroup& together) const {
        return together.from(link[level / kBucketLanes].weight, level % kBucketLanes);
    }
};

// `chain` is the first part of the history's chain. `reads` counts the sectors that this thread loads.
template <std::uint32_t kLevels>
ARCBEAM_DEVICE LmStep step_in_buckets(const LmBuckets& lm, std::uint32_t history, std::uint32_t label, bool seeks,
                                      ChainPart<kLevels> chain, const BucketGroup& together, std::uint32_t& reads) {
    constexpr std::uint32_t kNowhere = kLevels * kBucketLanes;
    const std::uint32_t rank = together.rank();
    const std::uint32_t slot = rank % kLmBucketEntries;
    const bool unknown = label == kUnknownLabel;
    LmArc found{kLmEmptyHistory, 0.0F};
    if (seeks && !unknown) {
        found = simt::load_readonly(lm.words + (label - 1U));
        reads += rank == 0U ? 1U : 0U;
    }
    float backoffs = 0.0F;
    bool open = seeks;
    for (std::uint32_t first = 0U;;) {
        std::uint32_t state[kLevels];
        LmEntry entry[kLevels];
        for (std::uint32_t k = 0U; k < kLevels; k += kLmBucketEntries) {
            // Each thread works out one bucket of one of four states.
            const std::uint32_t own = together.from(chain.link[k / kBucketLanes].state, k % kBucketLanes + slot);
            const LmBucketPair pair = lm_buckets_of(lm, own, label);
            const std::uint32_t bucket = pair.part * lm.buckets_a_part + (rank == slot ? pair.first : pair.second);
            for (std::uint32_t i = 0U; i < kLmBucketEntries; ++i) {
                const std::uint64_t in = together.from(bucket, rank - slot + i);
                state[k + i] = chain.state(k + i, together);
                entry[k + i] = LmEntry{kLmEmptyHistory, kUnknownLabel, {kLmEmptyHistory, 0.0F}};
                if (open && !unknown && state[k + i] != kLmEmptyHistory) {
                    entry[k + i] = simt::load_readonly(lm.entries + (in * kLmBucketEntries + slot));
                    reads += rank % 2U == 0U ? 1U : 0U;
                }
            }
        }
        // The longest history that lists the label, and the thread that has found it
        std::uint32_t where = kNowhere;
        LmArc arc{kLmEmptyHistory, 0.0F};
        for (std::uint32_t level = kLevels; level-- > 0U;) {
            if (state[level] != kLmEmptyHistory && lm_is_at(entry[level], state[level], label)) {
                where = level * kBucketLanes + rank;
                arc = entry[level].arc;
            }
        }
        for (std::uint32_t flip = kBucketLanes / 2U; flip > 0U; flip /= 2U) {
            const std::uint32_t other = simt::shuffle_xor(together.mask, where, flip);
            where = other < where ? other : where;
        }
        arc = LmArc{together.from(arc.next_state, where % kBucketLanes),
                    together.from(arc.weight, where % kBucketLanes)};
        found = open && where != kNowhere ? arc : found;
        for (std::uint32_t level = 0U; level < kLevels; ++level) {  // zeros after the last one change no sum
            const float weight = chain.weight(level, together);
            backoffs = open && level < where / kBucketLanes ? lm_back_off(backoffs, weight) : backoffs;
        }
        open = open && where == kNowhere && state[kLevels - 1U] != kLmEmptyHistory;
        first += kLevels;
        if (!together.any_group(open)) {
            break;
        }
        chain.load(lm, history, first, open, reads);
    }
    return unknown ? lm_unknown(backoffs) : lm_found(backoffs, found, kLmEmptyHistory);
}

// Whether the large model is in buckets.
template <class Params>
ARCBEAM_DEVICE bool is_in_buckets(const Params& params) {
    return Params::kHasBuckets && (!Params::kHasColumns || params.buckets.links != 0U);
}

// The cost of a label after the history of each thread that needs it. All threads of the warp call this.
ARCBEAM_DEVICE float cost_in_buckets(const LmBuckets& lm, std::uint32_t history, std::uint32_t label, bool active) {
    constexpr std::uint32_t kGroups = simt::kWarpSize / kBucketLanes;
    const BucketGroup together{simt::kAllThreads};
    const std::uint32_t lane = simt::warp_thread();
    float cost = 0.0F;
    for (std::uint32_t first = 0U; first < simt::kWarpSize; first += kGroups) {
        const std::uint32_t lane_served = first + lane / kBucketLanes;
        const std::uint32_t of = simt::shuffle(simt::kAllThreads, history, lane_served);
        const bool seeks = (simt::ballot(simt::kAllThreads, active) >> lane_served & 1U) != 0U;
        if (!simt::any(simt::kAllThreads, seeks)) {
            continue;
        }
        std::uint32_t uncounted = 0U;
        ChainPart<kManyLevels> chain;
        chain.load(lm, of, 0U, seeks, uncounted);
        const LmStep step = step_in_buckets<kManyLevels>(lm, of, label, seeks, chain, together, uncounted);
        const float group_cost = simt::shuffle(simt::kAllThreads, step.cost, lane % kGroups * kBucketLanes);
        cost = lane / kGroups == first / kGroups ? group_cost : cost;
    }
    return cost;
}

}  // namespace arcbeam
