// The end of a search with histories: the best token of the last live frame. The rule is the twin's, end() in
// cpu_reference/decode/rescoring_lane.hpp; the path is then written as in the plain search.
//
// out  control.best_end and control.end_index; returns in all threads whether a final state was reached
#pragma once

#include "rescore/frame.cuh"
#include "rescore/requests/request_ends.cuh"

namespace arcbeam {

// The deviation of the end of the sentence, for those threads of a warp that need it. All threads of the warp call
// this.
template <class Params>
ARCBEAM_DEVICE float end_of_sentence(const Params& params, const RescoringLane& lane, const History& history,
                                     bool active) {
    if constexpr (Params::kHasBuckets) {
        if (is_in_buckets(params)) {
            const std::uint32_t end = params.lms.large.num_labels;
            const float large = cost_in_buckets(params.buckets, history.large, end, active);
            const LmView& small = params.lms.small;
            return active ? deviation_cost(params.lms, large, lm_step(small, history.small, small.num_labels).cost)
                          : 0.0F;
        }
    }
    return !active                  ? 0.0F
           : !Params::kLanesRequest ? end_deviation(params.lms, history)
                                    : requested_end_deviation(params, history, *lane.words);
}

// The number that has to be smallest, for token `index` if there is one. All threads of a warp call this.
template <class Params>
ARCBEAM_DEVICE std::uint64_t rescored_end(const Params& params, const RescoringLane& lane, std::uint32_t index,
                                          bool is_token, bool final_only) {
    std::uint32_t state = 0U;
    float cost = kInfiniteCost;
    History history{0U, 0U};
    if (is_token) {
        state = lane.tokens.state[index];
        cost = simt::load(&lane.tokens.token.at(index)->cost);
    }
    if (final_only && is_token) {
        cost = extend_epsilon(cost, simt::load_readonly(params.search.graph.finals + state));
    }
    if (is_token && (final_only || Params::kBoosts)) {
        history = lane.histories[index];
    }
    if constexpr (Params::kDeviates) {
        if (final_only) {
            const bool is_final = is_token && is_finite(cost);
            const float deviation = end_of_sentence(params, lane, models_part(params, history), is_final);
            cost = is_final ? rescore_cost(cost, deviation) : kInfiniteCost;
        }
    }
    if constexpr (Params::kBoosts) {  // what a phrase was given is due at any end
        if (is_token && is_finite(cost)) {
            const std::uint32_t phrase = boost_part(params, history);
            cost = boost_cost(cost, boost_refund(params.boosts[lane.state.utterance], phrase));
        }
    }
    return is_token && !(final_only && !is_finite(cost)) ? pack(cost, state) : kNoPacked;
}

// Finds the best end; among tokens of equal cost and state the smallest history wins. `scratch` has a place for
// each token.
template <class Params>
ARCBEAM_DEVICE bool best_rescored_end(const Params& params, const RescoringLane& lane,
                                      const Array<Candidate>& scratch, bool finals) {
    Control& control = *lane.control;
    const std::uint32_t n = lane.state.num_tokens;
    const std::uint32_t of_warps = (n + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    const auto history_key = [&lane](std::uint32_t i) {
        return history_bits(static_cast<History>(lane.histories[i]));
    };
    bool reached_final = finals;
    for (;;) {
        if (simt::thread_rank() == 0U) {
            simt::store(&control.best_end, kNoPacked);
            simt::store(&lane.words->end_history, kNoPacked);
        }
        simt::block_barrier();
        for (std::uint32_t i = simt::thread_rank(); i < of_warps; i += simt::block_size()) {
            const std::uint64_t key = rescored_end(params, lane, i, i < n, reached_final);
            if (i < n) {
                simt::store(&scratch.at(i)->packed, key);
                simt::atomic_min<Scope::block>(&control.best_end, key);
            }
        }
        simt::block_barrier();
        const std::uint64_t best = simt::load(&control.best_end);
        if (best == kNoPacked && reached_final) {
            reached_final = false;
            simt::block_barrier();
            continue;
        }
        for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
            if (simt::load(&scratch.at(i)->packed) == best) {
                keep_first<BlockTeam>(params, &lane.words->end_history, history_key(i));
            }
        }
        simt::block_barrier();
        const std::uint64_t history = simt::load(&lane.words->end_history);
        for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
            if (simt::load(&scratch.at(i)->packed) == best && history_key(i) == history) {
                simt::store(&control.end_index, i);
            }
        }
        simt::block_barrier();
        return reached_final;
    }
}

}  // namespace arcbeam
