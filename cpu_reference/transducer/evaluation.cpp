#include "transducer/evaluation.hpp"

#include <algorithm>

#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

namespace {

// Floats from the hidden state of one layer to that of the next.
std::size_t row_of(const Network& network) { return round_up(network.units, static_cast<std::size_t>(kPartials)); }

}  // namespace

void Prediction::reset(const Network& network) {
    hidden.reset(std::max<std::size_t>(network.layers.size(), 1) * row_of(network));
    cell.reset(network.layers.size() * network.units);
    joint.reset(network.prediction.room_for_outputs());
    context.assign(network.is_stateless() ? network.context : 0, -1);
}

void Evaluation::predict(const Network& network, const std::vector<Prediction*>& predictions) {
    if (predictions.empty()) {
        return;
    }
    if (network.is_stateless()) {
        for (Prediction* one : predictions) {
            std::rotate(one->context.begin(), one->context.begin() + 1, one->context.end());
            one->context.back() = static_cast<std::int32_t>(one->last_token);
            network.look_up(one->context.data(), one->hidden.data());
        }
    } else {
        predict_lstm(network, predictions);
    }
    project(network, predictions);
}

void Evaluation::predict_lstm(const Network& network, const std::vector<Prediction*>& predictions) {
    const std::size_t row = row_of(network);
    const std::size_t stride = round_up(4 * network.units, kBlock);
    gates_.grow(predictions.size() * stride);
    recurrent_.grow(predictions.size() * stride);
    const auto multiply = [&](const Matrix& matrix, std::size_t layer, AlignedFloats& y) {
        from_.clear();
        to_.clear();
        for (std::size_t i = 0; i < predictions.size(); ++i) {
            from_.push_back(predictions[i]->hidden.data() + layer * row);
            to_.push_back(y.data() + i * stride);
        }
        network.kernels.multiply(matrix.view(), from_.data(), from_.size(), to_.data());
    };
    for (std::size_t l = 0; l < network.layers.size(); ++l) {
        multiply(network.layers[l].recurrent, l, recurrent_);
        if (l > 0) {
            multiply(network.layers[l].input, l - 1, gates_);
        }
        for (std::size_t i = 0; i < predictions.size(); ++i) {
            Prediction& one = *predictions[i];
            const float* input = l > 0 ? gates_.data() + i * stride : network.tables[0].row(one.last_token);
            network.kernels.lstm(input, recurrent_.data() + i * stride, network.units,
                                 one.cell.data() + l * network.units, one.hidden.data() + l * row);
            network.round(one.hidden.data() + l * row, network.units);
        }
    }
}

void Evaluation::restore(const Network& network, const std::vector<Prediction*>& predictions) {
    if (predictions.empty()) {
        return;
    }
    if (network.is_stateless()) {
        for (Prediction* one : predictions) {
            network.look_up(one->context.data(), one->hidden.data());
        }
    }
    project(network, predictions);
}

void Evaluation::project(const Network& network, const std::vector<Prediction*>& predictions) {
    const std::size_t top = std::max<std::size_t>(network.layers.size(), 1) - 1;
    from_.clear();
    to_.clear();
    for (Prediction* one : predictions) {
        from_.push_back(one->hidden.data() + top * row_of(network));
        to_.push_back(one->joint.data());
    }
    network.kernels.multiply(network.prediction.view(), from_.data(), from_.size(), to_.data());
}

void Evaluation::test(const Network& network, const std::vector<Test>& tests) {
    const std::size_t stride = network.output.room_for_inputs();
    logits_stride_ = network.output.room_for_outputs();
    joint_.grow(tests.size() * stride);
    logits_.grow(tests.size() * logits_stride_);
    from_.clear();
    to_.clear();
    for (std::size_t i = 0; i < tests.size(); ++i) {
        float* hidden = joint_.data() + i * stride;
        network.kernels.join(tests[i].encoder, tests[i].prediction->joint.data(), network.activation,
                             network.output.inputs(), hidden);
        network.round(hidden, network.output.inputs());
        from_.push_back(hidden);
        to_.push_back(logits_.data() + i * logits_stride_);
    }
    network.kernels.multiply(network.output.view(), from_.data(), from_.size(), to_.data());
}

}  // namespace arcbeam::transducer
