#include "transducer/lane.hpp"

#include <algorithm>

#include "shared/half.hpp"
#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

bool Lane::begin(const Network& network, const EncoderOutput& input, const StreamState& from, const Fusion& fusion,
                 Result& result) {
    network_ = &network;
    input_ = input;
    result_ = &result;
    frames_ = input.frames;
    frames_before_ = from.frames;
    place_ = {from.skip, 0U};
    projected_from_ = projected_to_ = 0;
    const std::size_t row = round_up(network.units, static_cast<std::size_t>(kPartials));
    const std::size_t layers = std::max<std::size_t>(network.layers.size(), 1);
    hidden.reset(layers * row);
    cell.reset(layers * network.units);
    prediction.reset(network.prediction.room_for_outputs());
    context = from.context;
    for (std::size_t l = 0; l < network.layers.size(); ++l) {
        std::copy_n(from.hidden.begin() + static_cast<std::ptrdiff_t>(l * network.units), network.units,
                    hidden.data() + l * row);
        network.round(hidden.data() + l * row, network.units);
    }
    std::copy(from.cell.begin(), from.cell.end(), cell.data());
    fused_.begin(fusion, from.fusion, network.tokens);
    const bool good = input.is_half
                          ? check(static_cast<const std::uint16_t*>(input.data), half_to_float)
                          : check(static_cast<const float*>(input.data), [](float value) { return value; });
    if (!good) {
        result.outcome = Outcome::kBadInput;
        frames_ = 0;
    }
    return good;
}

template <typename T, typename Load>
bool Lane::check(const T* rows, Load to_float) {
    const std::size_t features = network_->encoder.inputs();
    for (std::uint32_t frame = 0; frame < input_.frames; ++frame) {
        const T* row = rows + static_cast<std::int64_t>(frame) * input_.row_stride;
        std::uint32_t bad = 0;
        for (std::size_t i = 0; i < features; ++i) {
            bad |= is_number(to_float(row[i])) ? 0U : 1U;
        }
        for (std::size_t i = 0; bad != 0U && i < features; ++i) {
            if (!is_number(to_float(row[i]))) {
                result_->bad_frame = frame;
                result_->bad_column = static_cast<std::uint32_t>(i);
                return false;
            }
        }
    }
    return true;
}

void Lane::load(std::int64_t frame, float* to) const {
    const std::size_t features = network_->encoder.inputs();
    const std::int64_t row = frame * input_.row_stride;
    if (input_.is_half) {
        std::transform(static_cast<const std::uint16_t*>(input_.data) + row,
                       static_cast<const std::uint16_t*>(input_.data) + row + features, to, half_to_float);
    } else {
        std::copy_n(static_cast<const float*>(input_.data) + row, features, to);
    }
}

std::int64_t Lane::project(AlignedFloats& scratch) {
    const Matrix& encoder = network_->encoder;
    if (place_.frame >= projected_to_) {
        projected_from_ = place_.frame;
        projected_to_ = std::min(frames_, place_.frame + kProjectedFrames);
        const std::size_t from = encoder.room_for_inputs();
        const std::size_t to = encoder.room_for_outputs();
        projected_.grow(static_cast<std::size_t>(kProjectedFrames) * to);
        scratch.grow(static_cast<std::size_t>(kProjectedFrames) * from);
        const auto rows = static_cast<std::size_t>(projected_to_ - projected_from_);
        for (std::size_t i = 0; i < rows; ++i) {
            load(projected_from_ + static_cast<std::int64_t>(i), scratch.data() + i * from);
            network_->round(scratch.data() + i * from, encoder.inputs());
        }
        multiply_rows(network_->kernels, encoder, scratch.data(), from, rows, projected_.data(), to);
    }
    return projected_to_ - place_.frame;
}

const float* Lane::projected(std::int64_t frame) const {
    return projected_.data() +
           static_cast<std::size_t>(frame - projected_from_) * network_->encoder.room_for_outputs();
}

bool Lane::choose(const Options& options, const float* logits, std::int64_t frame, Choice& choice) {
    const Rank token = network_->kernels.rank(logits, network_->tokens);
    Rank duration{0, 0.0F, true};
    if (!options.durations.empty()) {
        duration = network_->kernels.rank(logits + network_->tokens, network_->durations);
    }
    if (!token.finite || !duration.finite) {
        result_->outcome = Outcome::kNotFinite;
        result_->bad_frame = static_cast<std::uint32_t>(frame);
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
        float statistic = log_prob(choice.largest, choice.largest, log_sum);
        if (confidence.statistic != Confidence::Statistic::kLargest) {
            const bool weighted = confidence.statistic == Confidence::Statistic::kWeighted;
            statistic = kernels.power_sum(logits, n, choice.largest, log_sum, confidence.alpha, weighted);
        }
        result_->confidences.push_back(confidence.of(statistic));
    }
    last_token = choice.token;
    fused_.follow(choice.token);
    place_ = after_label(place_, choice.duration, options.max_symbols);
}

void Lane::end() {
    StreamState& state = result_->state;
    const std::size_t row = round_up(network_->units, static_cast<std::size_t>(kPartials));
    const std::size_t layers = network_->layers.size();
    state.hidden.resize(layers * network_->units);
    for (std::size_t l = 0; l < layers; ++l) {
        std::copy_n(hidden.data() + l * row, network_->units,
                    state.hidden.begin() + static_cast<std::ptrdiff_t>(l * network_->units));
    }
    state.cell.assign(cell.data(), cell.data() + layers * network_->units);
    state.context = context;
    state.fusion = fused_.states();
    state.skip = place_.frame - static_cast<std::int64_t>(input_.frames);
    state.frames = frames_before_ + static_cast<std::int64_t>(input_.frames);
}

}  // namespace arcbeam::transducer
