// Fusion: what models make of the scores of labels. Its twin is cpu_reference/transducer/beam/fusion.cpp.
//
// in    of a history the states of the automata after it, and the logits of its test without an encoder; of a
// tested
//       row the logits
// out   of a history a row of addends, one for each token; of a tested row the scores of its tokens
//
// A history that is predicted gets its row from the warps of the grid while the networks run. The part of the
// internal language model is subtracted by one warp, once the logits are there that it is made of. The row is kept
// with the prediction.
#pragma once

#include "transducer/beam/utterance.cuh"
#include "transducer/result.cuh"
#include "transducer/token_steps.cuh"
#include "transducer/workers.cuh"

namespace arcbeam::transducer::beam {

// Where nothing is fused: the scores of tokens are their log-probs.
struct PlainModels {
    static constexpr bool kFused = false;

    struct Scores {
        RowSums sums;
        const float* logits;

        // The largest one: rounding is monotone.
        [[nodiscard]] ARCBEAM_DEVICE float best() const {
            return log_prob(sums.largest, sums.largest, sums.log_sum);
        }
        [[nodiscard]] ARCBEAM_DEVICE float of(std::uint32_t token) const {
            return log_prob(simt::load(logits + token), sums.largest, sums.log_sum);
        }
        // Those of tokens `from`, `from` + `apart` and so on, below `end`.
        template <int kCount>
        ARCBEAM_DEVICE void read(std::uint32_t from, std::uint32_t apart, std::uint32_t end, float* scores) const {
            PlainLogits{logits}.read<kCount>(from, apart, end, scores);
            for (std::uint32_t k = 0U; k < static_cast<std::uint32_t>(kCount); ++k) {
                scores[k] = log_prob(scores[k], sums.largest, sums.log_sum);
            }
        }
    };

    [[nodiscard]] ARCBEAM_DEVICE Scores scores(const Utterance& of, std::uint32_t rank, const RowSums& sums) const {
        return {sums, of.logits(rank)};
    }
    // How many tests some histories need besides their own.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t more_tests(std::uint32_t) const { return 0U; }
};

// A row of logits in which the blank has none.
struct LabelLogits {
    PlainLogits logits;
    std::uint32_t blank;
    template <int kCount>
    ARCBEAM_DEVICE void read(std::uint32_t from, std::uint32_t apart, std::uint32_t end, float* values) const {
        logits.read<kCount>(from, apart, end, values);
        for (std::uint32_t k = 0U; k < static_cast<std::uint32_t>(kCount); ++k) {
            values[k] = from + k * apart == blank ? -INFINITY : values[k];  // which adds 0 to a sum
        }
    }
};

// A softmax over the labels, without the blank.
struct LabelSoftmax {
    float largest;
    float log_sum;
};

// By one warp. `key`: that of the largest logit of all tokens. There has to be a label.
ARCBEAM_DEVICE LabelSoftmax softmax_of_labels(const LoopParams& loop, const float* logits, std::uint64_t key) {
    constexpr std::uint32_t kAtOnce = 8U;
    const std::uint32_t tokens = loop.network.tokens;
    const LabelLogits labels{{logits}, loop.blank};
    float largest = value_of(key);
    if (index_of(key) == loop.blank) {
        largest = -INFINITY;
        for (std::uint32_t i = simt::warp_thread(); i < tokens; i += kAtOnce * simt::kWarpSize) {
            float values[kAtOnce];
            labels.read<kAtOnce>(i, simt::kWarpSize, tokens, values);
            for (std::uint32_t k = 0U; k < kAtOnce; ++k) {
                const bool is_larger = i + k * simt::kWarpSize < tokens && values[k] > largest;
                largest = is_larger ? values[k] : largest;
            }
        }
        largest = largest_of(largest);
    }
    return {largest, log_of(sum_of(labels, tokens, [=](float logit) { return exp_of(logit - largest); }))};
}

class FusedModels {
  public:
    static constexpr bool kFused = true;

    struct Scores {
        RowSums sums;
        FusedSums fused;
        const float* logits;
        const float* addends;
        std::uint32_t blank;

        [[nodiscard]] ARCBEAM_DEVICE float best() const { return fused.best; }
        [[nodiscard]] ARCBEAM_DEVICE float of(std::uint32_t token) const {
            return score(token, simt::load(logits + token), simt::load(addends + token));
        }
        template <int kCount>
        ARCBEAM_DEVICE void read(std::uint32_t from, std::uint32_t apart, std::uint32_t end, float* scores) const {
            float added[kCount];
            PlainLogits{logits}.read<kCount>(from, apart, end, scores);
            PlainLogits{addends}.read<kCount>(from, apart, end, added);
            for (std::uint32_t k = 0U; k < static_cast<std::uint32_t>(kCount); ++k) {
                scores[k] = score(from + k * apart, scores[k], added[k]);
            }
        }

      private:
        [[nodiscard]] ARCBEAM_DEVICE float score(std::uint32_t token, float logit, float added) const {
            const float of_token = log_prob(logit, sums.largest, sums.log_sum);
            const float of_label = label_score(of_token, fused.weight, fused.of_labels, added);
            const float with_models = token == blank ? blank_score(of_token, fused.weight) : of_label;
            return fused.slot != kNowhere ? with_models : of_token;
        }
    };

    ARCBEAM_DEVICE explicit FusedModels(const FusionOfBeam& params) : params_(params) {}

    [[nodiscard]] ARCBEAM_DEVICE Scores scores(const Utterance& of, std::uint32_t rank, const RowSums& sums) const {
        const Piece piece = simt::load(reinterpret_cast<const Piece*>(sums_at(of, rank)));
        const FusedSums fused{from_bits(piece.words[0]), from_bits(piece.words[1]), from_bits(piece.words[2]),
                              piece.words[3]};
        return scores_with(of, rank, sums, fused);
    }

    // One more for each history that is predicted, if there is an internal language model.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t more_tests(std::uint32_t steppers) const {
        return params_.has_ilm != 0U ? simt::popcount(steppers) : 0U;
    }

    // The history without labels, by one thread.
    ARCBEAM_DEVICE void begin(const Utterance& of) const {
        Fused* const root = of.memory.fused + of.node_at(kRoot);
        for (std::uint32_t model = 0U; model < kBeamModels; ++model) {
            simt::store(&root->states[model], simt::load_readonly(params_.starts + kBeamModels * of.lane + model));
        }
    }

    // A history with one label more than one that has been tested, by one thread.
    ARCBEAM_DEVICE void follow(const Utterance& of, std::uint32_t parent, std::uint32_t label,
                               std::uint32_t child) const {
        const Fused* const before = of.memory.fused + of.node_at(parent);
        Fused* const after = of.memory.fused + of.node_at(child);
        for (std::uint32_t model = 0U; model < kBeamModels; ++model) {
            const TokenAutomaton& automaton = automaton_of(of.lane, model);
            TokenStep step{0.0F, simt::load(&before->states[model])};
            float share = 0.0F;
            if (label < automaton.num_tokens) {
                step = token_step(automaton, step.next_state, label);
                share = fusion_share(params_.factors[model], step.score);
            }
            simt::store(&after->states[model], step.next_state);
            simt::store(&after->shares[model], share);
            simt::store(&after->parts[model], simt::load(&before->parts[model]) + static_cast<double>(share));
        }
        float ilm = 0.0F;
        if (params_.has_ilm != 0U) {
            ilm = simt::load(row_at(of, of.memory.ilm, simt::load(&of.node(parent)->slot)) + label);
        }
        simt::store(&after->shares[kBeamModels], ilm);
        simt::store(&after->parts[kBeamModels], simt::load(&before->parts[kBeamModels]) - static_cast<double>(ilm));
    }

    // The rows of so many slots, by the warps of the grid. `scratch` belongs to the warp. A barrier of the grid
    // must follow.
    ARCBEAM_DEVICE void fill(const LoopParams& loop, const BeamParams& beam, const std::uint32_t* slots,
                             std::uint32_t count, float* scratch) const {
        const std::uint32_t parts = (loop.network.tokens + kFillTokens - 1U) / kFillTokens;
        for (std::uint32_t i = worker_from_last(); i < count * parts; i += workers()) {
            fill_part(loop, beam.memory, simt::load(slots + i / parts), i % parts * kFillTokens, scratch);
        }
    }

    // Requests the tests without an encoder of the histories that are predicted, one of each thread in `steppers`,
    // which are tests from `first` on.
    ARCBEAM_DEVICE void request(const Utterance& of, std::uint32_t steppers, std::uint32_t first,
                                std::uint32_t slot) const {
        if (params_.has_ilm == 0U) {
            return;
        }
        if (simt::warp_thread() == 0U) {
            simt::store(&of.state().predicted, steppers);
        }
        if ((steppers >> simt::warp_thread() & 1U) != 0U) {
            const std::uint32_t test = first + simt::place_in(steppers);
            simt::store(of.beam.test_slot + test, static_cast<std::uint32_t>(of.slot_at(slot)));
            simt::store(of.beam.test_row + test, params_.no_encoder_row);
        }
    }

    // Subtracts the internal language model's part in the row of a history that has been predicted in this round,
    // by one warp; false if its logits are not finite.
    ARCBEAM_DEVICE bool subtract_ilm(const Utterance& of, std::uint32_t rank, const std::uint64_t* keys) const {
        const std::uint32_t predicted = params_.has_ilm != 0U ? simt::load(&of.state().predicted) : 0U;
        if ((predicted >> rank & 1U) == 0U) {
            return true;
        }
        const std::uint32_t before = simt::popcount(predicted & ((std::uint32_t{1} << rank) - 1U));
        const std::uint32_t test = simt::load(&of.state().first_extra) + before;
        const std::uint64_t key = simt::load(keys + test);
        if (key == kNotFinite) {
            return false;
        }
        subtract(of.loop, of.memory, static_cast<std::uint32_t>(of.slot_at(slot_of_rank(of, rank))),
                 of.logits_of(test), key);
        return true;
    }

    [[nodiscard]] ARCBEAM_DEVICE bool has_ilm() const { return params_.has_ilm != 0U; }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t no_encoder_row() const { return params_.no_encoder_row; }

    // The same for the slot of a prediction that was restored. If the logits are not finite, no score of the row
    // is, and the utterance is an error once the history is tested.
    ARCBEAM_DEVICE void subtract_restored(const LoopParams& loop, const Memory& memory, std::uint32_t slot,
                                          const float* logits, std::uint64_t key) const {
        if (key != kNotFinite) {
            subtract(loop, memory, slot, logits, key);
            return;
        }
        float* const addends = memory.addends + static_cast<std::size_t>(slot) * loop.network.tokens;
        for (std::uint32_t i = simt::warp_thread(); i < loop.network.tokens; i += simt::kWarpSize) {
            simt::store(addends + i, INFINITY);
        }
    }

    // What the scores of a row depend on, and the best of them, by one warp. `key`: that of the largest logit.
    ARCBEAM_DEVICE void add_up(const Utterance& of, std::uint32_t rank, const RowSums& sums,
                               std::uint64_t key) const {
        FusedSums fused{log_prob(sums.largest, sums.largest, sums.log_sum), 0.0F, 0.0F, kNowhere};
        if (is_active(of.lane)) {
            fused.slot = slot_of_rank(of, rank);
            fused.weight =
                models_added(factor(of.lane, 0U), factor(of.lane, 1U), factor(of.lane, 2U), params_.ilm_scale);
            if (of.loop.network.tokens > 1U) {
                const LabelSoftmax labels = softmax_of_labels(of.loop, of.logits(rank), key);
                fused.of_labels = log_prob_of_labels(labels.largest, labels.log_sum, sums.largest, sums.log_sum);
            }
            fused.best = best_of(scores_with(of, rank, sums, fused), of.loop.network.tokens);
        }
        if (simt::warp_thread() == 0U) {
            simt::store(reinterpret_cast<Piece*>(sums_at(of, rank)),
                        Piece{{bits_of(fused.best), bits_of(fused.of_labels), bits_of(fused.weight), fused.slot}});
        }
    }

    // Lists the parts of the scores of live hypotheses, one of each thread.
    ARCBEAM_DEVICE void end(const Utterance& of, std::uint32_t live) const {
        const std::uint32_t me = simt::warp_thread();
        if (me < live) {
            const Fused* const history = of.memory.fused + of.node_at(simt::load(&of.live(me)->node));
            double* const parts = of.memory.parts + (static_cast<std::size_t>(of.lane) * of.most() + me) * kParts;
            for (std::uint32_t i = 0U; i < kParts; ++i) {
                simt::store(parts + i, simt::load(&history->parts[i]));
            }
        }
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE const TokenAutomaton& automaton_of(std::uint32_t lane, std::uint32_t model) const {
        return params_.automata[kBeamModels * lane + model];
    }

    // The factor of a model, 0 if the utterance has none.
    [[nodiscard]] ARCBEAM_DEVICE float factor(std::uint32_t lane, std::uint32_t model) const {
        return automaton_of(lane, model).num_states > 0U ? params_.factors[model] : 0.0F;
    }

    [[nodiscard]] ARCBEAM_DEVICE bool is_active(std::uint32_t lane) const {
        bool is_active = params_.ilm_scale > 0.0F;
        for (std::uint32_t model = 0U; model < kBeamModels; ++model) {
            is_active = is_active || automaton_of(lane, model).num_states > 0U;
        }
        return is_active;
    }

    [[nodiscard]] ARCBEAM_DEVICE static FusedSums* sums_at(const Utterance& of, std::uint32_t rank) {
        return of.memory.fused_sums + static_cast<std::size_t>(of.lane) * of.most() + rank;
    }

    // Without models the addends are not used.
    [[nodiscard]] ARCBEAM_DEVICE static Scores scores_with(const Utterance& of, std::uint32_t rank,
                                                           const RowSums& sums, const FusedSums& fused) {
        const float* const logits = of.logits(rank);
        const float* const addends = fused.slot != kNowhere ? row_at(of, of.memory.addends, fused.slot) : logits;
        return {sums, fused, logits, addends, of.loop.blank};
    }

    [[nodiscard]] ARCBEAM_DEVICE static std::uint32_t slot_of_rank(const Utterance& of, std::uint32_t rank) {
        return simt::load(&of.node(simt::load(&of.live(rank)->node))->slot);
    }

    // Subtracts the internal language model's part in the row of a slot, by one warp.
    ARCBEAM_DEVICE void subtract(const LoopParams& loop, const Memory& memory, std::uint32_t slot,
                                 const float* logits, std::uint64_t key) const {
        constexpr std::uint32_t kAtOnce = 8U;
        const std::uint32_t tokens = loop.network.tokens;
        float* const addends = memory.addends + static_cast<std::size_t>(slot) * tokens;
        float* const ilm = memory.ilm + static_cast<std::size_t>(slot) * tokens;
        const LabelSoftmax labels = softmax_of_labels(loop, logits, key);
        for (std::uint32_t first = simt::warp_thread(); first < tokens; first += kAtOnce * simt::kWarpSize) {
            float values[kAtOnce];
            float added[kAtOnce];
            PlainLogits{logits}.read<kAtOnce>(first, simt::kWarpSize, tokens, values);
            PlainLogits{addends}.read<kAtOnce>(first, simt::kWarpSize, tokens, added);
            for (std::uint32_t k = 0U; k < kAtOnce && first + k * simt::kWarpSize < tokens; ++k) {
                const std::uint32_t token = first + k * simt::kWarpSize;
                const float of_label = log_prob(values[k], labels.largest, labels.log_sum);
                const float share = fusion_share(params_.ilm_scale, of_label);
                simt::store(ilm + token, share);
                simt::store(addends + token, without_ilm(added[k], share));
            }
        }
        simt::warp_sync(simt::kAllThreads);
    }

    // The row of a slot of the utterance.
    [[nodiscard]] ARCBEAM_DEVICE static float* row_at(const Utterance& of, float* rows, std::uint32_t slot) {
        return rows + of.slot_at(slot) * of.loop.network.tokens;
    }

    // The tokens from `first` on.
    ARCBEAM_DEVICE void fill_part(const LoopParams& loop, const Memory& memory, std::uint32_t slot,
                                  std::uint32_t first, float* scratch) const {
        const std::uint32_t lane = slot / memory.rooms.slots;
        const std::size_t node =
            static_cast<std::size_t>(lane) * memory.rooms.nodes + simt::load(memory.slots + slot) - 1U;
        float shares[kBeamModels][kTokensEach] = {};
        for (std::uint32_t model = 0U; model < kBeamModels; ++model) {
            const TokenAutomaton automaton = automaton_of(lane, model);
            TokenStep steps[kTokensEach];
            steps_of(automaton, simt::load(&memory.fused[node].states[model]), first, scratch, steps);
            for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
                const std::uint32_t token = first + k * simt::kWarpSize + simt::warp_thread();
                const float share = fusion_share(params_.factors[model], steps[k].score);
                shares[model][k] = token < automaton.num_tokens ? share : 0.0F;
            }
        }
        float* const addends = memory.addends + static_cast<std::size_t>(slot) * loop.network.tokens;
        for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
            const std::uint32_t token = first + k * simt::kWarpSize + simt::warp_thread();
            if (token < loop.network.tokens) {
                simt::store(addends + token, models_added(shares[0][k], shares[1][k], shares[2][k], 0.0F));
            }
        }
    }

    // The largest score of a row, by one warp. One that is no number counts if it is the first.
    ARCBEAM_DEVICE static float best_of(const Scores& scores, std::uint32_t tokens) {
        constexpr std::uint32_t kAtOnce = 8U;
        float best = scores.of(0U);
        for (std::uint32_t i = simt::warp_thread(); i < tokens; i += kAtOnce * simt::kWarpSize) {
            float values[kAtOnce];
            scores.read<kAtOnce>(i, simt::kWarpSize, tokens, values);
            for (std::uint32_t k = 0U; k < kAtOnce; ++k) {
                best = i + k * simt::kWarpSize < tokens && values[k] > best ? values[k] : best;
            }
        }
        return largest_of(best);
    }

    const FusionOfBeam& params_;
};

}  // namespace arcbeam::transducer::beam
