#include "transducer/lane.hpp"

#include <algorithm>

#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

bool Lane::begin(const Network& network, const EncoderOutput& input, const StreamState& from, const Fusion& fusion,
                 Result& result) {
    network_ = &network;
    result_ = &result;
    frames_ = frames_given_ = input.frames;
    frames_before_ = from.frames;
    place_ = {from.skip, 0U};
    prediction.reset(network);
    prediction.context = from.context;
    const std::size_t row = round_up(network.units, static_cast<std::size_t>(kPartials));
    for (std::size_t l = 0; l < network.layers.size(); ++l) {
        std::copy_n(from.hidden.begin() + static_cast<std::ptrdiff_t>(l * network.units), network.units,
                    prediction.hidden.data() + l * row);
        network.round(prediction.hidden.data() + l * row, network.units);
    }
    std::copy(from.cell.begin(), from.cell.end(), prediction.cell.data());
    fused_.begin(fusion, from.fusion, network.tokens);
    const bool good = encoder_.begin(network, input, result.bad);
    if (!good) {
        result.outcome = Outcome::kBadInput;
        frames_ = 0;
    }
    return good;
}

bool Lane::choose(const Options& options, const float* logits, std::int64_t frame, Choice& choice) {
    const Rank token = network_->kernels.rank(logits, network_->tokens);
    Rank duration{0, 0.0F, true};
    if (!options.durations.empty()) {
        duration = network_->kernels.rank(logits + network_->tokens, network_->durations);
    }
    if (!token.finite || !duration.finite) {
        result_->outcome = Outcome::kNotFinite;
        result_->bad.frame = static_cast<std::uint32_t>(frame);
        frames_ = 0;
        return false;
    }
    choice = {token.index, options.durations.empty() ? 0U : options.durations[duration.index], token.largest};
    if (fused_.is_active() && choice.token != options.blank) {
        choice.token = fused_.best_label(network_->kernels, logits, options.blank);
    }
    return true;
}

void Lane::write(const Options& options, const Choice& choice, const float* logits) {
    const Kernels& kernels = network_->kernels;
    const std::size_t n = network_->tokens;
    const float log_sum = log_of(kernels.exp_sum(logits, n, choice.largest));
    const float log_prob_of_token = log_prob(logits[choice.token], choice.largest, log_sum);
    result_->tokens.push_back(choice.token);
    result_->frames.push_back(frames_before_ + place_.frame);
    result_->log_probs.push_back(log_prob_of_token);
    if (!options.durations.empty()) {
        result_->durations.push_back(choice.duration);
    }
    const Confidence& confidence = options.confidence;
    if (confidence.statistic != Confidence::Statistic::kNone) {
        result_->confidences.push_back(confidence_in(confidence, kernels, logits, n, choice.largest, log_sum));
    }
    prediction.last_token = choice.token;
    fused_.follow(choice.token);
    place_ = after_label(place_, choice.duration, options.max_symbols);
}

void Lane::end() {
    StreamState& state = result_->state;
    const std::size_t row = round_up(network_->units, static_cast<std::size_t>(kPartials));
    const std::size_t layers = network_->layers.size();
    state.hidden.resize(layers * network_->units);
    for (std::size_t l = 0; l < layers; ++l) {
        std::copy_n(prediction.hidden.data() + l * row, network_->units,
                    state.hidden.begin() + static_cast<std::ptrdiff_t>(l * network_->units));
    }
    state.cell.assign(prediction.cell.data(), prediction.cell.data() + layers * network_->units);
    state.context = prediction.context;
    state.fusion = fused_.states();
    state.skip = place_.frame - frames_given_;
    state.frames = frames_before_ + frames_given_;
}

}  // namespace arcbeam::transducer
