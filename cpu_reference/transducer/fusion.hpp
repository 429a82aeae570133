// What the n-gram model and the boosting tree of an utterance add to the logits of its next label.
//
// The blank is decided without them. Where a label is written, it is the one with the largest fused logit, the
// smallest of equals; the blank is none. The row of addends depends on the labels so far alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/token_automaton.hpp"
#include "transducer/aligned.hpp"
#include "transducer/kernels.hpp"

namespace arcbeam::transducer {

// The n-gram model, the boosting tree, and of beam search alone a second n-gram model (LODR).
constexpr std::size_t kFusionModels = 3;

struct FusionModel {
    TokenAutomaton automaton{};  // without states: none
    float alpha = 0.0F;
};

struct Fusion {
    FusionModel models[kFusionModels];

    [[nodiscard]] bool has(std::size_t model) const { return models[model].automaton.num_states > 0U; }
};

struct FusionStates {
    std::uint32_t of[kFusionModels] = {0, 0, 0};
};

// token_step of every token that the automaton scores.
void all_steps(const TokenAutomaton& automaton, std::uint32_t state, std::vector<TokenStep>& steps);

class FusedLogits {
  public:
    void begin(const Fusion& fusion, const FusionStates& states, std::size_t tokens);

    [[nodiscard]] bool is_active() const { return is_active_; }
    [[nodiscard]] const FusionStates& states() const { return states_; }

    // The label that the fused logits choose, if the logits have not chosen the blank.
    std::uint32_t best_label(const Kernels& kernels, const float* logits, std::uint32_t blank);

    // Goes on with the row after a label.
    void follow(std::uint32_t label);

  private:
    void fill();

    Fusion fusion_{};
    FusionStates states_{};
    bool is_active_ = false;
    std::vector<float> biases_;
    std::vector<TokenStep> steps_[kFusionModels];
    AlignedFloats fused_;
};

}  // namespace arcbeam::transducer
