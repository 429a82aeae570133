// Expansion: what the live hypotheses of one frame and depth can do next. Its twin is
// cpu_reference/transducer/beam/expand.cpp.
//
// in    live hypotheses in their rank, and the logits of each
// out   the candidates that are admitted, in order of (rank, the blank before labels, token, place of the duration)
//
// Three steps: sums over the logits of a row by one warp; its best labels by one warp; all of an utterance by one
// warp.
#pragma once

#include "transducer/beam/best_keys.cuh"
#include "transducer/beam/models.cuh"

namespace arcbeam::transducer::beam {

// A candidate's place in the order of the law.
ARCBEAM_DEVICE std::uint64_t order_of(const Utterance& of, std::uint32_t rank, std::uint32_t token,
                                      std::uint32_t duration) {
    const std::uint32_t before = token == of.loop.blank ? 0U : token + 1U;
    return (std::uint64_t{rank} * (of.loop.network.tokens + 1U) + before) * of.beam.sizes.durations + duration;
}

template <class Models>
struct Expansion {
    const Utterance& of;
    const Models& models;

    // The sums of a live hypothesis' logits.
    ARCBEAM_DEVICE void add_up(std::uint32_t rank, const std::uint64_t* keys) const {
        const DeviceNetwork& network = of.loop.network;
        const std::size_t test = simt::load(of.test(rank));
        const std::uint64_t key = simt::load(keys + test);
        const std::uint64_t length = network.durations > 0U ? simt::load(keys + of.loop.most_tests + test) : 0U;
        const float largest = value_of(key);
        RowSums sums{largest, INFINITY, 0.0F, 0.0F};
        bool is_good = key != kNotFinite && length != kNotFinite;
        if constexpr (Models::kFused) {
            is_good = models.subtract_ilm(of, rank, keys) && is_good;
        }
        if (is_good) {
            const PlainLogits logits{of.logits(rank)};
            sums.log_sum =
                log_of(sum_of(logits, network.tokens, [=](float logit) { return exp_of(logit - largest); }));
            if (of.loop.confidence.statistic != Statistic::none) {
                sums.confidence =
                    confidence_of(of.loop, logits, largest, sums.log_sum, log_prob(largest, largest, sums.log_sum));
            }
            sums.best_duration = add_up_durations(rank, logits.first + network.tokens, length);
            if constexpr (Models::kFused) {
                models.add_up(of, rank, sums, key);
            }
        }
        if (simt::warp_thread() == 0U) {
            simt::store(reinterpret_cast<Piece*>(of.sums(rank)),
                        Piece{{bits_of(sums.largest), bits_of(sums.log_sum), bits_of(sums.best_duration),
                               bits_of(sums.confidence)}});
        }
    }

    // What candidates must score at least; false unless all logits of all live hypotheses are finite, and with
    // models also the best score.
    ARCBEAM_DEVICE bool find_bound(std::uint32_t live, float& bound) const {
        const std::uint32_t rank = simt::warp_thread();
        float best = simt::load(&of.state().later);
        bool is_finite = true;
        if (rank < live) {
            const RowSums sums = sums_of(rank);
            is_finite = is_number(sums.log_sum);
            // Rounding is monotone, so the best token with the best duration makes the best candidate.
            const float one = score_after(simt::load(&of.live(rank)->score), models.scores(of, rank, sums).best(),
                                          sums.best_duration);
            best = one > best ? one : best;
        }
        best = largest_of(best);
        bound = best - of.beam.beam;
        if constexpr (Models::kFused) {
            is_finite = is_finite && is_number(best);
        }
        return simt::all(simt::kAllThreads, is_finite);
    }

    // The best labels of a live hypothesis, as many as may live, with each duration.
    ARCBEAM_DEVICE void find_labels(std::uint32_t live, std::uint32_t rank) const {
        float bound = 0.0F;
        if (!find_bound(live, bound)) {
            return;
        }
        const std::uint32_t tokens = of.loop.network.tokens;
        const auto scores = models.scores(of, rank, sums_of(rank));
        const float before = simt::load(&of.live(rank)->score);
        for (std::uint32_t d = 0U; d < of.beam.sizes.durations; ++d) {
            const float duration = simt::load(of.durations(rank) + d);
            BestKeys best(of.most());
            if (!(score_after(before, scores.best(), duration) < bound)) {
                each_label(
                    scores,
                    [&](std::uint32_t token, float of_token) {
                        const float score = score_after(before, of_token, duration);
                        return score >= bound && is_number(score) ? rank_key(score, rank * tokens + token) : 0U;
                    },
                    best);
            }
            if (simt::warp_thread() < of.most()) {
                simt::store(of.best_labels(rank, d) + simt::warp_thread(), best.key());
            }
        }
    }

    // All candidates that are admitted, in order; gives their number.
    ARCBEAM_DEVICE std::uint32_t admit(std::uint32_t live, float bound) const {
        const std::uint32_t tokens = of.loop.network.tokens;
        const std::uint32_t me = simt::warp_thread();
        std::uint32_t count = 0U;
        const auto append = [&](std::uint64_t key, std::uint32_t duration) {
            const std::uint32_t takers = simt::ballot(simt::kAllThreads, key != 0U);
            if (key != 0U) {
                const std::uint32_t rank = index_of(key) / tokens;
                const std::uint64_t order = order_of(of, rank, index_of(key) - rank * tokens, duration);
                store(0U, count + simt::place_in(takers), key, order);
            }
            count += simt::popcount(takers);
        };
        for (std::uint32_t d = 0U; d < of.beam.sizes.durations; ++d) {
            BestKeys best(of.most());
            for (std::uint32_t first = 0U; first < live * of.most(); first += simt::kWarpSize) {
                const std::uint32_t rank = (first + me) / of.most();
                best.take(rank < live ? simt::load(of.best_labels(rank, d) + (first + me) % of.most()) : 0U);
            }
            append(best.key(), d);
            std::uint64_t blank = 0U;
            if (me < live) {
                const float of_blank = models.scores(of, me, sums_of(me)).of(of.loop.blank);
                const float score =
                    score_after(simt::load(&of.live(me)->score), of_blank, simt::load(of.durations(me) + d));
                blank = score >= bound && is_number(score) ? rank_key(score, me * tokens + of.loop.blank) : 0U;
            }
            append(blank, d);
        }
        simt::warp_sync(simt::kAllThreads);
        for (std::uint32_t first = 0U; first < count; first += simt::kWarpSize) {
            const bool is_there = first + me < count;
            const std::uint64_t order = is_there ? simt::load(&of.candidate(0U, first + me)->order) : 0U;
            std::uint32_t place = 0U;
            for (std::uint32_t others = 0U; others < count; others += simt::kWarpSize) {
                const std::uint64_t other =
                    others + me < count ? simt::load(&of.candidate(0U, others + me)->order) : ~std::uint64_t{0};
                for (std::uint32_t k = 0U; k < simt::kWarpSize && others + k < count; ++k) {
                    place += simt::shuffle(simt::kAllThreads, other, k) < order ? 1U : 0U;
                }
            }
            if (is_there) {
                store(1U, place, simt::load(&of.candidate(0U, first + me)->key), order);
            }
        }
        simt::warp_sync(simt::kAllThreads);
        return count;
    }

    [[nodiscard]] ARCBEAM_DEVICE RowSums sums_of(std::uint32_t rank) const {
        const Piece piece = simt::load(reinterpret_cast<const Piece*>(of.sums(rank)));
        return {from_bits(piece.words[0]), from_bits(piece.words[1]), from_bits(piece.words[2]),
                from_bits(piece.words[3])};
    }

  private:
    // Takes key_of(token, its score) of all labels. Several are loaded at a time, and most are out of the beam.
    template <class KeyOf>
    ARCBEAM_DEVICE void each_label(const typename Models::Scores& scores, const KeyOf& key_of,
                                   BestKeys& best) const {
        constexpr std::uint32_t kAtOnce = 8U;
        const std::uint32_t tokens = of.loop.network.tokens;
        for (std::uint32_t first = 0U; first < tokens; first += kAtOnce * simt::kWarpSize) {
            float values[kAtOnce];
            std::uint64_t keys[kAtOnce];
            scores.template read<kAtOnce>(first + simt::warp_thread(), simt::kWarpSize, tokens, values);
            std::uint64_t any = 0U;
            for (std::uint32_t k = 0U; k < kAtOnce; ++k) {
                const std::uint32_t token = first + k * simt::kWarpSize + simt::warp_thread();
                keys[k] = token < tokens && token != of.loop.blank ? key_of(token, values[k]) : 0U;
                any |= keys[k];
            }
            if (simt::any(simt::kAllThreads, any != 0U)) {
                for (std::uint32_t k = 0U; k < kAtOnce; ++k) {
                    best.take(keys[k]);
                }
            }
        }
    }

    ARCBEAM_DEVICE void store(std::uint32_t in_order, std::uint32_t i, std::uint64_t key,
                              std::uint64_t order) const {
        Candidate* const to = of.candidate(in_order, i);
        simt::store(&to->key, key);
        simt::store(&to->order, order);
    }

    // Log-probs of the durations; gives the best one. An RNN-T has one duration, whose log-prob is 0.
    ARCBEAM_DEVICE float add_up_durations(std::uint32_t rank, const float* logits, std::uint64_t length) const {
        const std::uint32_t durations = of.loop.network.durations;
        if (durations == 0U) {
            if (simt::warp_thread() == 0U) {
                simt::store(of.durations(rank), 0.0F);
            }
            return 0.0F;
        }
        const float largest = value_of(length);
        const float log_sum =
            log_of(sum_of(PlainLogits{logits}, durations, [=](float logit) { return exp_of(logit - largest); }));
        for (std::uint32_t d = simt::warp_thread(); d < durations; d += simt::kWarpSize) {
            simt::store(of.durations(rank) + d, log_prob(simt::load(logits + d), largest, log_sum));
        }
        return log_prob(largest, largest, log_sum);
    }
};

}  // namespace arcbeam::transducer::beam
