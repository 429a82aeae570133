#include "transducer/fusion.hpp"

namespace arcbeam::transducer {

namespace {

constexpr std::uint32_t kNowhere = 0xffffffffU;

}  // namespace

// From the longest history down, each token takes the first arc that it finds.
void all_steps(const TokenAutomaton& automaton, std::uint32_t state, std::vector<TokenStep>& steps) {
    steps.assign(automaton.num_tokens, TokenStep{0.0F, kNowhere});
    float backoffs = 0.0F;
    for (;; state = automaton.backoffs[state].next_state) {
        for (std::uint32_t arc = automaton.first_arcs[state]; arc < automaton.first_arcs[state + 1U]; ++arc) {
            TokenStep& step = steps[automaton.arc_tokens[arc]];
            if (step.next_state == kNowhere) {
                step = token_found(backoffs, automaton.arcs[arc]);
            }
        }
        if (state == 0U) {
            return;
        }
        backoffs = token_back_off(backoffs, automaton.backoffs[state].weight);
    }
}

void FusedLogits::begin(const Fusion& fusion, const FusionStates& states, std::size_t tokens) {
    fusion_ = fusion;
    states_ = states;
    is_active_ = fusion.has(0) || fusion.has(1);
    if (is_active_) {
        biases_.assign(tokens, 0.0F);
        fill();
    }
}

void FusedLogits::fill() {
    const FusionModel& ngram_lm = fusion_.models[0];
    const FusionModel& tree = fusion_.models[1];
    for (std::size_t i = 0; i < kFusionModels; ++i) {
        if (fusion_.has(i)) {
            all_steps(fusion_.models[i].automaton, states_.of[i], steps_[i]);
        } else {
            steps_[i].clear();
        }
    }
    for (std::size_t token = 0; token < biases_.size(); ++token) {
        const bool by_lm = token < steps_[0].size();
        const bool by_tree = token < steps_[1].size();
        biases_[token] = fused_bias(by_lm ? fusion_share(ngram_lm.alpha, steps_[0][token].score) : 0.0F,
                                    by_tree ? fusion_share(tree.alpha, steps_[1][token].score) : 0.0F);
    }
}

std::uint32_t FusedLogits::best_label(const Kernels& kernels, const float* logits, std::uint32_t blank) {
    const std::size_t n = biases_.size();
    fused_.grow(n);
    float* const fused = fused_.data();
    for (std::size_t token = 0; token < n; ++token) {
        fused[token] = fused_logit(logits[token], biases_[token]);
    }
    // The blank takes the part of the label after it, or of the first label: the smallest of equals stays the
    // same.
    const std::size_t other = blank + 1U < n ? blank + 1U : 0U;
    fused[blank] = fused[other];
    const std::uint32_t found = kernels.rank(fused, n).index;
    return found == blank ? static_cast<std::uint32_t>(other) : found;
}

void FusedLogits::follow(std::uint32_t label) {
    if (!is_active_) {
        return;
    }
    for (std::size_t i = 0; i < kFusionModels; ++i) {
        if (label < steps_[i].size()) {
            states_.of[i] = steps_[i][label].next_state;
        }
    }
    fill();
}

}  // namespace arcbeam::transducer
