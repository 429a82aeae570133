// The weights of a transducer in the form that the kernels read: prediction network and joint network.
//
// Values that depend on a token alone are tabulated once. For an LSTM that is the product of the embedding and the
// first layer's input weights with both biases added, dot(weight_ih, embedding[token]) + (bias_ih + bias_hh). For a
// stateless network it is the part that each place of the context adds, dot(convolution, embedding[token]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transducer/aligned.hpp"
#include "transducer/kernels.hpp"

namespace arcbeam::transducer {

// A row-major array of the caller, [outputs, inputs], and its bias [outputs] or null.
struct Weights {
    const float* values;
    const float* bias;
    std::size_t outputs;
    std::size_t inputs;
};

// One layer: input weights [4 units, inputs], recurrent weights [4 units, units], the two biases [4 units] or null.
struct LstmWeights {
    const float* input;
    const float* recurrent;
    const float* input_bias;
    const float* recurrent_bias;
};

struct NetworkWeights {
    const float* embedding;  // [tokens, embedding_size]
    std::size_t tokens;
    std::size_t embedding_size;
    std::vector<LstmWeights> layers;  // none: a stateless network
    std::size_t units;                // of each layer; of the stateless network's output

    // Stateless: convolution [units, embedding_size / groups, context] over the last `context` tokens, oldest
    // first; null: embedding is [context, tokens, units], one table for each place, oldest first.
    const float* convolution;
    const float* convolution_bias;  // [units] or null
    std::size_t groups;
    std::size_t context;
    bool relu;  // applied to the sum

    Weights encoder;     // [joint, features]
    Weights prediction;  // [joint, units]
    Weights output;      // [tokens + durations, joint]
    Activation activation;
    bool rounds;  // precision bfloat16; the weights given here are rounded already
};

class Matrix {
  public:
    // Packs the weights, whose rows are `stride` floats apart.
    void pack(const Weights& weights, std::size_t stride);
    void pack(const Weights& weights) { pack(weights, weights.inputs); }

    [[nodiscard]] const MatrixView& view() const { return view_; }
    [[nodiscard]] std::size_t outputs() const { return outputs_; }
    [[nodiscard]] std::size_t inputs() const { return inputs_; }
    [[nodiscard]] std::size_t room_for_outputs() const { return view_.blocks * kBlock; }
    [[nodiscard]] std::size_t room_for_inputs() const;
    [[nodiscard]] std::size_t bytes() const { return (packed_.size() + bias_.size()) * sizeof(float); }

  private:
    AlignedFloats packed_;
    AlignedFloats bias_;
    MatrixView view_{};
    std::size_t outputs_ = 0;
    std::size_t inputs_ = 0;
};

// One row for each token, `stride` floats apart.
struct TokenTable {
    AlignedFloats values;
    std::size_t stride = 0;
    [[nodiscard]] const float* row(std::size_t token) const { return values.data() + token * stride; }
};

class Network {
  public:
    struct Layer {
        Matrix input;  // of the second layer and those above
        Matrix recurrent;
    };

    // Reads the weights and keeps none of the pointers.
    Network(const NetworkWeights& weights, const Kernels& kernels);

    // The input of the joint network after these tokens (-1 for none), for stateless networks.
    void look_up(const std::int32_t* context, float* hidden) const;

    // Rounds values that a matrix will be multiplied by, if the precision requires it.
    void round(float* values, std::size_t n) const {
        if (rounds) {
            kernels.round(values, n);
        }
    }

    [[nodiscard]] bool is_stateless() const { return layers.empty(); }
    [[nodiscard]] std::size_t bytes() const;

    const Kernels& kernels;
    std::size_t tokens;
    std::size_t durations;
    std::size_t units;
    std::size_t context;
    Activation activation;
    bool rounds;
    std::vector<Layer> layers;
    std::vector<TokenTable> tables;  // one for an LSTM; one for each place of the context, oldest first
    std::vector<float> convolution_bias;
    bool relu;
    Matrix encoder;
    Matrix prediction;
    Matrix output;

  private:
    void tabulate_gates(const NetworkWeights& weights);
    void tabulate_context(const NetworkWeights& weights);
};

// y = the matrix times rows of x, `x_stride` apart, to rows of y, `y_stride` apart.
void multiply_rows(const Kernels& kernels, const Matrix& matrix, const float* x, std::size_t x_stride,
                   std::size_t rows, float* y, std::size_t y_stride);

}  // namespace arcbeam::transducer
