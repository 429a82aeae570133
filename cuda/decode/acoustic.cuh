// The acoustic costs of one frame, computed by the block.
//
// in   row `frame` of the utterance
// out  costs[columns], control.smallest_acoustic, control.bad_column (kNoIndex if the row is good)
//      A barrier must follow.
#pragma once

#include "decode/workspace.cuh"
#include "shared/half.hpp"

namespace arcbeam {

// A plain load, because log-probs may come while the kernel runs; see arrival.cuh.
ARCBEAM_DEVICE float log_prob(const UtteranceView& utterance, std::uint32_t frame, std::uint32_t column) {
    const std::int64_t i = static_cast<std::int64_t>(frame) * utterance.row_stride + column;
    if (utterance.is_half != 0U) {
        return half_to_float(simt::load(static_cast<const std::uint16_t*>(utterance.log_probs) + i));
    }
    return simt::load(static_cast<const float*>(utterance.log_probs) + i);
}

// NaN and +inf are errors; -inf means "never".
ARCBEAM_DEVICE bool is_log_prob(float value) { return value <= kLargestCost; }

ARCBEAM_DEVICE void load_acoustic(const SearchParams& params, const UtteranceView& utterance, std::uint32_t frame,
                                  const Array<float>& costs, Control& control) {
    std::uint32_t smallest = kNoCost;
    for (std::uint32_t column = simt::thread_rank(); column < params.columns; column += simt::block_size()) {
        const float logp = log_prob(utterance, frame, column);
        if (!is_log_prob(logp)) {
            simt::atomic_min<Scope::block>(&control.bad_column, column);
        }
        float cost = acoustic_cost(logp, params.acoustic_scale);
        if (static_cast<std::int32_t>(column) == params.blank_column) {
            cost = penalise(cost, params.blank_penalty);
        }
        costs[column] = cost;
        const std::uint32_t key = ordered(cost);
        smallest = key < smallest ? key : smallest;
    }
    smallest = simt::reduce_min(simt::warp_mask(), smallest);
    if (simt::warp_thread() == 0U) {
        simt::atomic_min<Scope::block>(&control.smallest_acoustic, smallest);
    }
}

// Brings a later row to L2.
ARCBEAM_DEVICE void prefetch_row(const SearchParams& params, const UtteranceView& utterance, std::uint32_t frame) {
    const std::uint32_t bytes = utterance.is_half != 0U ? 2U : 4U;
    const auto* row = static_cast<const unsigned char*>(utterance.log_probs) +
                      static_cast<std::int64_t>(frame) * utterance.row_stride * bytes;
    for (std::uint32_t at = simt::thread_rank() * 128U; at < params.columns * bytes;
         at += simt::block_size() * 128U) {
        simt::prefetch(row + at);
    }
}

}  // namespace arcbeam
