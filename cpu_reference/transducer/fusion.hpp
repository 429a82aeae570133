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

constexpr std::size_t kFusionModels = 2;  // the n-gram model, the boosting tree

struct FusionModel {
    TokenAutomaton automaton{};  // without states: none
    float alpha = 0.0F;
};

struct Fusion {
    FusionModel models[kFusionModels];
};

struct FusionStates {
    std::uint32_t of[kFusionModels] = {0, 0};
};

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
