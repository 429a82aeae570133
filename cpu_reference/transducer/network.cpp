#include "transducer/network.hpp"

#include <algorithm>
#include <utility>

#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

namespace {

constexpr std::size_t kSteps = static_cast<std::size_t>(kPartials);

// The bias of an LSTM layer. It is rounded once, whether both biases exist or only one.
std::vector<float> gate_bias(const LstmWeights& layer, std::size_t gates) {
    std::vector<float> bias(gates, 0.0F);
    for (const float* part : {layer.input_bias, layer.recurrent_bias}) {
        for (std::size_t g = 0; part != nullptr && g < gates; ++g) {
            bias[g] += part[g];
        }
    }
    return bias;
}

}  // namespace

void Matrix::pack(const Weights& weights, std::size_t stride) {
    outputs_ = weights.outputs;
    inputs_ = weights.inputs;
    view_.blocks = round_up(outputs_, kBlock) / kBlock;
    view_.steps = round_up(inputs_, kSteps) / kSteps;
    packed_.reset(view_.blocks * kBlock * view_.steps * kSteps);
    float* to = packed_.data();
    for (std::size_t block = 0; block < view_.blocks; ++block) {
        for (std::size_t p = 0; p < 8; ++p) {
            for (std::size_t step = 0; step < view_.steps; ++step) {
                for (std::size_t q = 0; q < 4; ++q, to += kBlock) {
                    const std::size_t i = step * kSteps + p + 8 * q;
                    const std::size_t first = block * kBlock;
                    for (std::size_t o = first; i < inputs_ && o < std::min(outputs_, first + kBlock); ++o) {
                        to[o - first] = weights.values[o * stride + i];
                    }
                }
            }
        }
    }
    if (weights.bias != nullptr) {
        bias_.reset(view_.blocks * kBlock);
        std::copy_n(weights.bias, outputs_, bias_.data());
    }
    view_.packed = packed_.data();
    view_.bias = weights.bias != nullptr ? bias_.data() : nullptr;
}

std::size_t Matrix::room_for_inputs() const { return view_.steps * kSteps; }

void multiply_rows(const Kernels& kernels, const Matrix& matrix, const float* x, std::size_t x_stride,
                   std::size_t rows, float* y, std::size_t y_stride) {
    constexpr std::size_t kMost = 64;  // so that the inputs stay in the cache while the weights pass through it
    const float* from[kMost];
    float* to[kMost];
    for (std::size_t row = 0; row < rows;) {
        std::size_t n = 0;
        for (; n < kMost && row < rows; ++n, ++row) {
            from[n] = x + row * x_stride;
            to[n] = y + row * y_stride;
        }
        kernels.multiply(matrix.view(), from, n, to);
    }
}

Network::Network(const NetworkWeights& weights, const Kernels& with)
    : kernels(with),
      tokens(weights.tokens),
      durations(weights.output.outputs - weights.tokens),
      units(weights.units),
      context(weights.context),
      activation(weights.activation),
      rounds(weights.rounds),
      relu(weights.relu) {
    encoder.pack(weights.encoder);
    prediction.pack(weights.prediction);
    output.pack(weights.output);
    if (weights.layers.empty()) {
        tabulate_context(weights);
        return;
    }
    const std::size_t gates = 4 * units;
    layers.resize(weights.layers.size());
    for (std::size_t l = 0; l < layers.size(); ++l) {
        layers[l].recurrent.pack({weights.layers[l].recurrent, nullptr, gates, units});
        if (l > 0) {
            const std::vector<float> bias = gate_bias(weights.layers[l], gates);
            layers[l].input.pack({weights.layers[l].input, bias.data(), gates, units});
        }
    }
    tabulate_gates(weights);
}

void Network::tabulate_gates(const NetworkWeights& weights) {
    const std::size_t gates = 4 * units;
    const std::vector<float> bias = gate_bias(weights.layers[0], gates);
    Matrix input;
    input.pack({weights.layers[0].input, bias.data(), gates, weights.embedding_size});
    AlignedFloats embedding(tokens * input.room_for_inputs());
    for (std::size_t token = 0; token < tokens; ++token) {
        std::copy_n(weights.embedding + token * weights.embedding_size, weights.embedding_size,
                    embedding.data() + token * input.room_for_inputs());
    }
    TokenTable table;
    table.stride = input.room_for_outputs();
    table.values.reset(tokens * table.stride);
    multiply_rows(kernels, input, embedding.data(), input.room_for_inputs(), tokens, table.values.data(),
                  table.stride);
    tables.push_back(std::move(table));
}

void Network::tabulate_context(const NetworkWeights& weights) {
    if (weights.convolution_bias != nullptr) {
        convolution_bias.assign(weights.convolution_bias, weights.convolution_bias + units);
    }
    for (std::size_t place = 0; place < context; ++place) {
        TokenTable table;
        table.stride = round_up(units, kBlock);
        table.values.reset(tokens * table.stride);
        if (weights.convolution == nullptr) {
            for (std::size_t token = 0; token < tokens; ++token) {
                std::copy_n(weights.embedding + (place * tokens + token) * units, units,
                            table.values.data() + token * table.stride);
            }
            tables.push_back(std::move(table));
            continue;
        }
        const std::size_t inputs = weights.embedding_size / weights.groups;
        const std::size_t outputs = units / weights.groups;
        std::vector<float> tap(outputs * inputs);
        for (std::size_t group = 0; group < weights.groups; ++group) {
            for (std::size_t i = 0; i < tap.size(); ++i) {
                tap[i] = weights.convolution[(group * outputs * inputs + i) * context + place];
            }
            Matrix matrix;
            matrix.pack({tap.data(), nullptr, outputs, inputs});
            AlignedFloats x(matrix.room_for_inputs());
            AlignedFloats y(matrix.room_for_outputs());
            for (std::size_t token = 0; token < tokens; ++token) {
                std::copy_n(weights.embedding + token * weights.embedding_size + group * inputs, inputs, x.data());
                multiply_rows(kernels, matrix, x.data(), x.size(), 1, y.data(), y.size());
                std::copy_n(y.data(), outputs, table.values.data() + token * table.stride + group * outputs);
            }
        }
        tables.push_back(std::move(table));
    }
}

void Network::look_up(const std::int32_t* tokens_before, float* hidden) const {
    std::fill_n(hidden, units, 0.0F);
    for (std::size_t place = 0; place < context; ++place) {
        if (tokens_before[place] >= 0) {
            const float* row = tables[place].row(static_cast<std::size_t>(tokens_before[place]));
            for (std::size_t u = 0; u < units; ++u) {
                hidden[u] += row[u];
            }
        }
    }
    for (std::size_t u = 0; u < convolution_bias.size(); ++u) {
        hidden[u] += convolution_bias[u];
    }
    for (std::size_t u = 0; relu && u < units; ++u) {
        hidden[u] = relu_of(hidden[u]);
    }
    round(hidden, units);
}

std::size_t Network::bytes() const {
    std::size_t sum = encoder.bytes() + prediction.bytes() + output.bytes();
    for (const Layer& layer : layers) {
        sum += layer.input.bytes() + layer.recurrent.bytes();
    }
    for (const TokenTable& table : tables) {
        sum += table.values.size() * sizeof(float);
    }
    return sum;
}

}  // namespace arcbeam::transducer
