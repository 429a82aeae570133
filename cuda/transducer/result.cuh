// Stage result: what is told of a label: its log-prob among all tokens, and how sure it is.
//
// in    lanes: list, found, token; logits and keys of the round
// out   records [lane][count - 1]
#pragma once

#include "transducer/lanes.cuh"
#include "transducer/product.cuh"

namespace arcbeam::transducer {

// Sum of exp_of(logit - largest), by one warp.
ARCBEAM_DEVICE float exp_sum(const float* logits, std::uint32_t n, float largest) {
    float partial = 0.0F;
    for (std::uint32_t i = simt::lane(); i < n; i += kStep) {
        partial = partial + exp_of(simt::load(logits + i) - largest);
    }
    return add_lanes(partial);
}

// With x the log-probs: the sum of exp_of(alpha * x), or of exp_of(alpha * x) * x.
ARCBEAM_DEVICE float power_sum(const float* logits, std::uint32_t n, float largest, float log_sum, float alpha,
                               bool weighted) {
    float partial = 0.0F;
    for (std::uint32_t i = simt::lane(); i < n; i += kStep) {
        const float x = log_prob(simt::load(logits + i), largest, log_sum);
        const float power = exp_of(alpha * x);
        partial = partial + (weighted ? power * x : power);
    }
    return add_lanes(partial);
}

ARCBEAM_DEVICE float confidence_of(const LoopParams& params, const float* logits, float largest, float log_sum,
                                   float log_prob_of_token) {
    const ConfidenceParams& confidence = params.confidence;
    float statistic = log_prob_of_token;
    if (confidence.statistic != Statistic::largest) {
        statistic = power_sum(logits, params.network.tokens, largest, log_sum, confidence.alpha,
                              confidence.statistic == Statistic::weighted);
    }
    if (confidence.statistic == Statistic::log_power) {
        statistic = log_of(statistic);
    }
    const float value = fused(confidence.factor, statistic, confidence.offset);
    const float mapped = confidence.exponential != 0U ? exp_of(value) : value;
    return fused(confidence.scale, mapped, confidence.shift);
}

// The record of one lane's label, by one warp.
ARCBEAM_DEVICE void record(const LoopParams& params, const Lanes& lanes, const std::uint64_t* keys,
                           std::uint32_t lane) {
    const std::uint32_t test = simt::load(lanes.found.at(lane));
    const float* const logits = params.logits + static_cast<std::size_t>(test) * params.network.output.rows;
    const float largest = value_of(simt::load(keys + test));
    const float log_sum = log_of(exp_sum(logits, params.network.tokens, largest));
    const float of_token = log_prob(largest, largest, log_sum);
    float sure = 0.0F;
    if (params.confidence.statistic != Statistic::none) {
        sure = confidence_of(params, logits, largest, log_sum, of_token);
    }
    if (simt::lane() == 0U) {
        const std::size_t at = static_cast<std::size_t>(lane) * params.room + simt::load(lanes.count.at(lane)) - 1U;
        Record* const to = params.records + at;
        simt::store(&to->token, simt::load(lanes.token.at(lane)));
        simt::store(&to->frame, simt::load(lanes.label_frame.at(lane)));
        simt::store(&to->duration, simt::load(lanes.duration.at(lane)));
        simt::store(&to->log_prob, of_token);
        simt::store(&to->confidence, sure);
    }
}

// The records of all listed lanes, by the warps of the grid; the last ones first, for the first have tiles to do.
ARCBEAM_DEVICE void record_all(const LoopParams& params, const Lanes& lanes, const std::uint64_t* keys) {
    const std::uint32_t warps = simt::num_warps() * simt::grid_size();
    const std::uint32_t rank = simt::warp() * simt::grid_size() + simt::block_rank();
    for (std::uint32_t i = warps - 1U - rank; i < lanes.listed(); i += warps) {
        record(params, lanes, keys, simt::load(lanes.list.at(i)));
    }
}

}  // namespace arcbeam::transducer
