// The end of a search with histories: the best token of the last live frame. The rule is the twin's, end() in
// cpu_reference/decode/rescoring_lane.hpp; the path is then written as in the plain search.
//
// out  control.best_end and control.end_index; returns in all threads whether a final state was reached
#pragma once

#include "rescore/frame.cuh"

namespace arcbeam {

ARCBEAM_DEVICE std::uint64_t rescored_end(const RescoringParams& params, const RescoringLane& lane,
                                          std::uint32_t index, bool final_only) {
    const std::uint32_t state = lane.tokens.state[index];
    float cost = simt::load(&lane.tokens.token.at(index)->cost);
    if (final_only) {
        cost = extend_epsilon(cost, simt::load_readonly(params.search.graph.finals + state));
        if (is_finite(cost)) {
            const History history = lane.histories[index];
            cost = rescore_cost(cost, !kLanesAsk ? end_deviation(params.lms, history)
                                                 : asked_end_deviation(params, history, *lane.words));
        }
        if (!is_finite(cost)) {
            return kNoPacked;
        }
    }
    return pack(cost, state);
}

// Among tokens of one cost and state the smallest history. `scratch` has a place for each token.
ARCBEAM_DEVICE bool best_rescored_end(const RescoringParams& params, const RescoringLane& lane,
                                      const Array<Candidate>& scratch) {
    Control& control = *lane.control;
    const std::uint32_t n = lane.state.num_tokens;
    const auto history_key = [&lane](std::uint32_t i) {
        return history_bits(static_cast<History>(lane.histories[i]));
    };
    bool reached_final = lane.state.alive != 0U;
    for (;;) {
        if (simt::thread_rank() == 0U) {
            simt::store(&control.best_end, kNoPacked);
            simt::store(&lane.words->end_history, kNoPacked);
        }
        simt::block_barrier();
        for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
            const std::uint64_t key = rescored_end(params, lane, i, reached_final);
            simt::store(&scratch.at(i)->packed, key);
            simt::atomic_min<Scope::block>(&control.best_end, key);
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
