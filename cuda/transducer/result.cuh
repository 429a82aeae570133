// Stage result: the record of a label: its log-prob among all tokens, and how sure it is.
//
// in    lanes: list, found, token; best; logits of the round
// out   records [lane][count - 1]
#pragma once

#include "transducer/lanes.cuh"
#include "transducer/product.cuh"
#include "transducer/workers.cuh"

namespace arcbeam::transducer {

// A test's logits.
struct PlainLogits {
    const float* first;
    template <int kCount>
    ARCBEAM_DEVICE void read(std::uint32_t from, std::uint32_t apart, std::uint32_t end, float* values) const {
        for (std::uint32_t k = 0U; k < static_cast<std::uint32_t>(kCount); ++k) {
            values[k] = from + k * apart < end ? simt::load(first + from + k * apart) : 0.0F;
        }
    }
};

// The sum of term(logit), by one warp. Several logits are loaded at a time.
template <class Logits, class Term>
ARCBEAM_DEVICE float sum_of(const Logits& logits, std::uint32_t n, const Term& term) {
    constexpr int kAtOnce = 12;
    float partial = 0.0F;
    for (std::uint32_t i = simt::warp_thread(); i < n; i += std::uint32_t{kAtOnce} * kStep) {
        float values[kAtOnce];
        logits.template read<kAtOnce>(i, kStep, n, values);
        for (std::uint32_t k = 0; k < std::uint32_t{kAtOnce}; ++k) {
            if (i + k * kStep < n) {
                partial = partial + term(values[k]);
            }
        }
    }
    return add_lanes(partial);
}

// With x the log-probs: the sum of exp_of(alpha * x), or of exp_of(alpha * x) * x.
template <class Logits>
ARCBEAM_DEVICE float power_sum(const Logits& logits, std::uint32_t n, float largest, float log_sum, float alpha,
                               bool weighted) {
    return sum_of(logits, n, [=](float logit) {
        const float x = log_prob(logit, largest, log_sum);
        const float power = exp_of(alpha * x);
        return weighted ? power * x : power;
    });
}

template <class Logits>
ARCBEAM_DEVICE float confidence_of(const LoopParams& params, const Logits& logits, float largest, float log_sum,
                                   float log_prob_of_largest) {
    const ConfidenceParams& confidence = params.confidence;
    float statistic = log_prob_of_largest;
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
template <bool kFused, class LogitsOf>
ARCBEAM_DEVICE void record(const LoopParams& params, const Lanes& lanes, std::uint32_t lane,
                           const LogitsOf& logits_of) {
    const std::uint32_t test = simt::load(lanes.found.at(lane));
    const auto logits = logits_of(test);
    const float largest = value_of(simt::load(lanes.best.at(test)));
    const float log_sum =
        log_of(sum_of(logits, params.network.tokens, [=](float logit) { return exp_of(logit - largest); }));
    const float of_largest = log_prob(largest, largest, log_sum);
    float of_token = of_largest;
    if constexpr (kFused) {
        float logit[1];
        logits.template read<1>(simt::load(lanes.token.at(lane)), 1U, params.network.tokens, logit);
        of_token = log_prob(logit[0], largest, log_sum);
    }
    float sure = 0.0F;
    if (params.confidence.statistic != Statistic::none) {
        sure = confidence_of(params, logits, largest, log_sum, of_largest);
    }
    if (simt::warp_thread() == 0U) {
        const std::size_t at = static_cast<std::size_t>(lane) * params.room + simt::load(lanes.count.at(lane)) - 1U;
        Record* const to = params.records + at;
        simt::store(&to->token, simt::load(lanes.token.at(lane)));
        simt::store(&to->frame, simt::load(lanes.label_frame.at(lane)));
        simt::store(&to->duration, simt::load(lanes.duration.at(lane)));
        simt::store(&to->log_prob, of_token);
        simt::store(&to->confidence, sure);
    }
}

// Makes the records of all listed lanes, by the warps of the grid.
template <bool kFused, class LogitsOf>
ARCBEAM_DEVICE void record_all(const LoopParams& params, const Lanes& lanes, const LogitsOf& logits_of) {
    for (std::uint32_t i = worker_from_last(); i < lanes.listed(); i += workers()) {
        record<kFused>(params, lanes, simt::load(lanes.list.at(i)), logits_of);
    }
}

}  // namespace arcbeam::transducer
