// Stage fusion: what the n-gram model and the boosting tree of a lane add to the logits of its next label.
//
// in    lanes: list, count, token; states
// out   biases [lane][tokens]; next_states [count % 2][lane][model][tokens]
//
// A warp works out the scores of kFillTokens tokens of a lane at a time (token_steps.cuh).
//
// The state after each token is kept until the next label is known, and read when its own scores are worked out.
// Blocks read the label at different times, so the states after it are written to the other of two buffers.
#pragma once

#include <type_traits>

#include "transducer/lanes.cuh"
#include "transducer/token_steps.cuh"
#include "transducer/workers.cuh"

namespace arcbeam::transducer {

// In the place of FusedLabels, where nothing is fused.
struct PlainLabels {
    static constexpr bool kFused = false;
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t label(std::uint32_t, std::uint64_t of_token) const {
        return index_of(of_token);
    }
    ARCBEAM_DEVICE void follow(std::uint32_t) const {}
};

// The fused labels of a launch. The blank is decided without them.
struct FusedLabels {
    static constexpr bool kFused = true;

    const LoopParams* loop;
    const FusionParams* params;
    simt::Array<std::uint32_t> states;  // [lanes][kFusionModels]
    simt::Array<std::uint64_t> best;    // keys of the tests' fused labels

    ARCBEAM_DEVICE void carve(simt::Carver& carver) {
        states = carver.take<std::uint32_t>(kFusionModels * loop->num_lanes);
        best = carver.take<std::uint64_t>(loop->most_tests);
    }

    ARCBEAM_DEVICE void load() const {
        for (std::uint32_t i = simt::thread_rank(); i < states.size; i += simt::block_size()) {
            simt::store(states.at(i), simt::load(params->states + i));
        }
    }

    // One block writes the states back.
    ARCBEAM_DEVICE void save(const Lanes& lanes) const {
        for (std::uint32_t i = simt::thread_rank(); i < states.size; i += simt::block_size()) {
            simt::store(params->states + i, state_of(lanes, i / kFusionModels, i % kFusionModels));
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* keys_of(std::uint32_t round) const {
        return params->keys + static_cast<std::size_t>(round % kKeyBuffers) * loop->most_tests;
    }

    // Called by one block, for the next round.
    ARCBEAM_DEVICE void clear_keys(std::uint32_t round) const {
        for (std::uint32_t i = simt::thread_rank(); i < loop->most_tests; i += simt::block_size()) {
            simt::store(keys_of(round) + i, std::uint64_t{0});
        }
    }

    // What is added to the logit of a token of a lane.
    [[nodiscard]] ARCBEAM_DEVICE float bias_of(std::uint32_t lane, std::uint32_t token) const {
        return simt::load(params->biases + static_cast<std::size_t>(lane) * loop->network.tokens + token);
    }

    // The key of a token; 0 for the blank.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t key(std::uint32_t token, float logit, float bias) const {
        return token == loop->blank ? 0U : rank_key(fused_logit(logit, bias), token);
    }

    // By other threads than those that fetch the other results meanwhile. A barrier of the block must follow.
    ARCBEAM_DEVICE void fetch(std::uint32_t round, std::uint32_t num_tests) const {
        const std::uint32_t half = simt::block_size() / 2U;
        const std::uint32_t rank = simt::thread_rank();
        for (std::uint32_t i = rank < half ? rank + half : rank - half; i < num_tests; i += simt::block_size()) {
            simt::store(best.at(i), simt::load(keys_of(round) + i));
        }
    }

    // The label of a test whose logits have not chosen the blank.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t label(std::uint32_t test, std::uint64_t) const {
        return index_of(simt::load(best.at(test)));
    }

    // Goes on after a label of a lane.
    ARCBEAM_DEVICE void follow(std::uint32_t lane) const {
        for (std::uint32_t model = 0U; model < kFusionModels; ++model) {
            if (params->used[model] != 0U) {
                simt::store(states.at(kFusionModels * lane + model), kAfterLabel);
            }
        }
    }

    // The rows of the listed lanes, by the warps of the grid, the last ones after those that make records.
    // `scratch` belongs to the warp. A barrier of the grid must follow.
    ARCBEAM_DEVICE void fill(const Lanes& lanes, float* scratch) const {
        const std::uint32_t warps = workers();
        const std::uint32_t parts = (loop->network.tokens + kFillTokens - 1U) / kFillTokens;
        const std::uint32_t listed = lanes.listed();
        for (std::uint32_t i = (worker_from_last() + warps - listed % warps) % warps; i < listed * parts;
             i += warps) {
            fill_part(lanes, simt::load(lanes.list.at(i / parts)), i % parts * kFillTokens, scratch);
        }
    }

  private:
    static constexpr std::uint32_t kAfterLabel = 0xffffffffU;  // the state that the lane's last label leads to

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t* next_states_of(std::uint32_t lane, std::uint32_t count,
                                                               std::uint32_t model) const {
        const std::size_t row =
            (static_cast<std::size_t>(count % 2U) * loop->num_lanes + lane) * kFusionModels + model;
        return params->next_states + row * loop->network.tokens;
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t state_of(const Lanes& lanes, std::uint32_t lane,
                                                        std::uint32_t model) const {
        const std::uint32_t state = simt::load(states.at(kFusionModels * lane + model));
        return state != kAfterLabel
                   ? state
                   : simt::load(next_states_of(lane, simt::load(lanes.count.at(lane)) - 1U, model) +
                                simt::load(lanes.token.at(lane)));
    }

    // The tokens from `first` on.
    ARCBEAM_DEVICE void fill_part(const Lanes& lanes, std::uint32_t lane, std::uint32_t first,
                                  float* scratch) const {
        float biases[kTokensEach] = {};  // a share of -0 becomes 0, which has the same key
        for (std::uint32_t model = 0U; model < kFusionModels; ++model) {
            if (params->used[model] == 0U) {
                continue;
            }
            TokenStep steps[kTokensEach];
            const TokenAutomaton automaton = params->automata[kFusionModels * lane + model];
            steps_of(automaton, state_of(lanes, lane, model), first, scratch, steps);
            std::uint32_t* const next_states = next_states_of(lane, simt::load(lanes.count.at(lane)), model);
            for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
                const std::uint32_t token = first + k * simt::kWarpSize + simt::warp_thread();
                if (token < automaton.num_tokens) {
                    biases[k] = fused_bias(biases[k], fusion_share(params->alphas[model], steps[k].score));
                }
                if (token < loop->network.tokens) {
                    simt::store(next_states + token, steps[k].next_state);
                }
            }
        }
        for (std::uint32_t k = 0U; k < kTokensEach; ++k) {
            const std::uint32_t token = first + k * simt::kWarpSize + simt::warp_thread();
            if (token < loop->network.tokens) {
                simt::store(params->biases + static_cast<std::size_t>(lane) * loop->network.tokens + token,
                            biases[k]);
            }
        }
    }
};

template <bool kFused>
using Labels = std::conditional_t<kFused, FusedLabels, PlainLabels>;

}  // namespace arcbeam::transducer
