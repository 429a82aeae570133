// Stage fusion: what the n-gram model and the boosting tree of a lane add to the logits of its next label.
//
// in    lanes: list, count; states
// out   biases [lane][tokens]; next_states [count % 2][lane][model][tokens]
//
// A thread works out one token of a lane at a time, from the longest history down (shared/token_automaton.hpp). The
// state after each token is kept until the label is known. Blocks learn the label at different times, so the states
// after it are written to the other of two buffers.
#pragma once

#include <type_traits>

#include "shared/token_automaton.hpp"
#include "transducer/lanes.cuh"

namespace arcbeam::transducer {

// In the place of FusedLabels, where nothing is fused.
struct PlainLabels {
    static constexpr bool kFused = false;
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t label(std::uint32_t, std::uint64_t of_token) const {
        return index_of(of_token);
    }
    ARCBEAM_DEVICE void follow(std::uint32_t, std::uint32_t, std::uint32_t) const {}
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

    ARCBEAM_DEVICE void save() const {
        for (std::uint32_t i = simt::thread_rank(); i < states.size; i += simt::block_size()) {
            simt::store(params->states + i, simt::load(states.at(i)));
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

    // The key of a token of a test; 0 for the blank.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t key(std::uint32_t lane, std::uint32_t token, float logit) const {
        if (token == loop->blank) {
            return 0U;
        }
        const std::size_t at = static_cast<std::size_t>(lane) * loop->network.tokens + token;
        return rank_key(fused_logit(logit, simt::load(params->biases + at)), token);
    }

    // A barrier of the block must follow.
    ARCBEAM_DEVICE void fetch(std::uint32_t round, std::uint32_t num_tests) const {
        for (std::uint32_t i = simt::thread_rank(); i < num_tests; i += simt::block_size()) {
            simt::store(best.at(i), simt::load(keys_of(round) + i));
        }
    }

    // The label of a test whose logits have not chosen the blank.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t label(std::uint32_t test, std::uint64_t) const {
        return index_of(simt::load(best.at(test)));
    }

    // Goes on after a label, which is the one after `count` others.
    ARCBEAM_DEVICE void follow(std::uint32_t lane, std::uint32_t count, std::uint32_t token) const {
        for (std::uint32_t model = 0U; model < kFusionModels; ++model) {
            simt::store(states.at(kFusionModels * lane + model),
                        simt::load(next_states_of(lane, count, model) + token));
        }
    }

    // The rows of the listed lanes, by the threads of the grid, several lanes at a time if there are threads for
    // them. Consecutive threads have consecutive tokens. A barrier of the grid must follow.
    ARCBEAM_DEVICE void fill(const Lanes& lanes) const {
        const std::uint32_t tokens = loop->network.tokens;
        const std::uint32_t threads = simt::block_size() * simt::grid_size();
        const std::uint32_t rank =
            (simt::warp() * simt::grid_size() + simt::block_rank()) * simt::kWarpSize + simt::warp_thread();
        const std::uint32_t at_once = threads < tokens ? 1U : threads / tokens;
        const std::uint32_t first = threads < tokens ? 0U : rank / tokens;
        if (first >= at_once) {
            return;
        }
        for (std::uint32_t i = first; i < lanes.listed(); i += at_once) {
            const std::uint32_t lane = simt::load(lanes.list.at(i));
            for (std::uint32_t token = rank - first * tokens; token < tokens; token += threads) {
                fill_one(lanes, lane, token);
            }
        }
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t* next_states_of(std::uint32_t lane, std::uint32_t count,
                                                               std::uint32_t model) const {
        const std::size_t row =
            (static_cast<std::size_t>(count % 2U) * loop->num_lanes + lane) * kFusionModels + model;
        return params->next_states + row * loop->network.tokens;
    }

    ARCBEAM_DEVICE void fill_one(const Lanes& lanes, std::uint32_t lane, std::uint32_t token) const {
        float shares[kFusionModels];
        for (std::uint32_t model = 0U; model < kFusionModels; ++model) {
            const TokenAutomaton automaton = params->automata[kFusionModels * lane + model];
            const std::uint32_t state = simt::load(states.at(kFusionModels * lane + model));
            TokenStep step{0.0F, state};
            const bool scores = token < automaton.num_tokens;
            if (scores) {
                step = token_step(automaton, state, token);
            }
            shares[model] = scores ? fusion_share(params->alphas[model], step.score) : 0.0F;
            simt::store(next_states_of(lane, simt::load(lanes.count.at(lane)), model) + token, step.next_state);
        }
        simt::store(params->biases + static_cast<std::size_t>(lane) * loop->network.tokens + token,
                    fused_bias(shares[0], shares[1]));
    }
};

template <bool kFused>
using Labels = std::conditional_t<kFused, FusedLabels, PlainLabels>;

}  // namespace arcbeam::transducer
