// What language models and a boosting tree add to the scores of an utterance's labels (law 12, fusion).
//
// in    the states of the automata after a history; for the internal language model the logits of the joint network
//       without an encoder
// out   a row of addends, one for each token, which depends on the history alone: it is kept with its prediction
// rule  shares are rounded one by one, and added in the order of models_added
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/transducer_beam.hpp"
#include "transducer/fusion.hpp"
#include "transducer/network.hpp"

namespace arcbeam::transducer::beam {

// A softmax over the labels, without the blank.
struct LabelSoftmax {
    float largest;
    float log_sum;
};

// `labels` is scratch. There has to be a label.
LabelSoftmax softmax_of_labels(const Network& network, std::uint32_t blank, const float* logits,
                               std::vector<float>& labels);

// Of a history that is tested.
struct Biases {
    std::vector<float> of_tokens;
    std::vector<float> ilm;  // of these the internal language model's part, which is subtracted
};

// Of a history: the states after it, and what its last label has got from each model.
struct Fused {
    FusionStates states;
    float shares[kFusionModels] = {};
    float ilm_share = 0.0F;
};

class BeamFusion {
  public:
    void begin(const Network& network, const Fusion& fusion, float ilm_scale, std::uint32_t blank);

    [[nodiscard]] bool is_active() const { return is_active_; }
    [[nodiscard]] bool needs_ilm() const { return ilm_scale_ > 0.0F && network_->tokens > 1; }
    [[nodiscard]] float weight() const { return weight_; }  // of the blank

    // The row after a history. `ilm_logits` is read if they are needed; false if they are not finite.
    bool fill(const Fused& history, const float* ilm_logits, Biases& biases);

    // The history after one label more.
    [[nodiscard]] Fused after(const Fused& history, const Biases& biases, std::uint32_t label) const;

  private:
    [[nodiscard]] float alpha(std::size_t model) const {
        return fusion_.has(model) ? fusion_.models[model].alpha : 0.0F;
    }
    bool fill_ilm(const float* logits, std::vector<float>& shares);

    const Network* network_ = nullptr;
    Fusion fusion_{};
    float ilm_scale_ = 0.0F;
    float weight_ = 0.0F;
    std::uint32_t blank_ = 0;
    bool is_active_ = false;
    std::vector<TokenStep> steps_[kFusionModels];
    std::vector<float> labels_;
};

}  // namespace arcbeam::transducer::beam
