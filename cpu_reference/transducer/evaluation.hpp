// Runs the networks for several hypotheses at a time, which share each pass over the weights. No byte depends on
// the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transducer/aligned.hpp"
#include "transducer/network.hpp"

namespace arcbeam::transducer {

// The prediction network after some tokens.
struct Prediction {
    // Room for this network, and its state before the first token.
    void reset(const Network& network);

    AlignedFloats hidden;  // [layers, room for units as input]; for a stateless network its output
    AlignedFloats cell;    // [layers, units]
    AlignedFloats joint;   // its part of the joint network's hidden layer
    std::vector<std::int32_t> context;
    std::uint32_t last_token = 0;
};

// A run of the joint network: the encoder's part of its hidden layer, and that of a prediction.
struct Test {
    const float* encoder;
    const Prediction* prediction;
};

class Evaluation {
  public:
    // Runs the prediction network on each one's last token, and computes its part of the joint network's hidden
    // layer.
    void predict(const Network& network, const std::vector<Prediction*>& predictions);

    // Computes that part alone, of predictions whose LSTM's hidden state or last tokens are given.
    void restore(const Network& network, const std::vector<Prediction*>& predictions);

    // Runs the joint network on all tests.
    void test(const Network& network, const std::vector<Test>& tests);
    [[nodiscard]] const float* logits_of(std::size_t test) const { return logits_.data() + test * logits_stride_; }

  private:
    void project(const Network& network, const std::vector<Prediction*>& predictions);

    void predict_lstm(const Network& network, const std::vector<Prediction*>& predictions);

    AlignedFloats joint_;  // hidden layers of the tests
    AlignedFloats logits_;
    std::size_t logits_stride_ = 0;
    AlignedFloats gates_;      // from the layer below
    AlignedFloats recurrent_;  // from the units before
    std::vector<const float*> from_;
    std::vector<float*> to_;
};

}  // namespace arcbeam::transducer
