#include "transducer/beam/fusion.hpp"

#include <cmath>

namespace arcbeam::transducer::beam {

LabelSoftmax softmax_of_labels(const Network& network, std::uint32_t blank, const float* logits,
                               std::vector<float>& labels) {
    labels.assign(logits, logits + network.tokens);
    labels[blank] = -INFINITY;  // which adds 0 to a sum
    const float largest = network.kernels.rank(labels.data(), labels.size()).largest;
    return {largest, log_of(network.kernels.exp_sum(labels.data(), labels.size(), largest))};
}

void BeamFusion::begin(const Network& network, const Fusion& fusion, float ilm_scale, std::uint32_t blank) {
    network_ = &network;
    fusion_ = fusion;
    ilm_scale_ = ilm_scale;
    blank_ = blank;
    is_active_ = ilm_scale > 0.0F;
    for (std::size_t i = 0; i < kFusionModels; ++i) {
        is_active_ = is_active_ || fusion.has(i);
        steps_[i].clear();
    }
    weight_ = models_added(alpha(0), alpha(1), alpha(2), ilm_scale);
}

bool BeamFusion::fill(const Fused& history, const float* ilm_logits, Biases& biases) {
    for (std::size_t i = 0; i < kFusionModels; ++i) {
        if (fusion_.has(i)) {
            all_steps(fusion_.models[i].automaton, history.states.of[i], steps_[i]);
        }
    }
    if (needs_ilm() && !fill_ilm(ilm_logits, biases.ilm)) {
        return false;
    }
    const auto share = [this](std::size_t model, std::size_t token) {
        return token < steps_[model].size() ? fusion_share(alpha(model), steps_[model][token].score) : 0.0F;
    };
    biases.of_tokens.resize(network_->tokens);
    for (std::size_t token = 0; token < biases.of_tokens.size(); ++token) {
        biases.of_tokens[token] =
            models_added(share(0, token), share(1, token), share(2, token), needs_ilm() ? biases.ilm[token] : 0.0F);
    }
    return true;
}

bool BeamFusion::fill_ilm(const float* logits, std::vector<float>& shares) {
    if (!network_->kernels.rank(logits, network_->tokens).finite) {
        return false;
    }
    const LabelSoftmax softmax = softmax_of_labels(*network_, blank_, logits, labels_);
    shares.resize(network_->tokens);
    for (std::size_t token = 0; token < shares.size(); ++token) {
        shares[token] = fusion_share(ilm_scale_, log_prob(logits[token], softmax.largest, softmax.log_sum));
    }
    return true;
}

Fused BeamFusion::after(const Fused& history, const Biases& biases, std::uint32_t label) const {
    Fused next = history;
    for (std::size_t i = 0; i < kFusionModels; ++i) {
        next.shares[i] = 0.0F;
        if (fusion_.has(i) && label < fusion_.models[i].automaton.num_tokens) {
            const TokenStep step = token_step(fusion_.models[i].automaton, history.states.of[i], label);
            next.states.of[i] = step.next_state;
            next.shares[i] = fusion_share(alpha(i), step.score);
        }
    }
    next.ilm_share = needs_ilm() ? biases.ilm[label] : 0.0F;
    return next;
}

}  // namespace arcbeam::transducer::beam
