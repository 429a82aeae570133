// The loops of transducer networks over vectors: one table of functions for each vector unit, all with the same
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace arcbeam::transducer {

// A matrix [outputs, inputs] as the kernels read it: blocks of kBlock outputs (the last one filled up with zeros).
// Within a block, the partial sums p, p + 8, p + 16, p + 24 advance together, for p = 0 to 7:
//
//     packed[block][p][step][q][lane] = weight[block * kBlock + lane][step * kPartials + p + 8 q]
//
// so that a product reads memory from front to back.
constexpr std::size_t kBlock = 16;

struct MatrixView {
    const float* packed;
    const float* bias;  // [outputs, filled up to whole blocks]; null for none
    std::size_t blocks;
    std::size_t steps;  // inputs / kPartials, rounded up
};

enum class Activation : std::uint8_t { kTanh, kRelu, kSigmoid };

struct Rank {
    std::uint32_t index;  // of the largest value; of equal values the first
    float largest;
    bool finite;  // whether all values are finite
};

struct Kernels {
    const char* name;
    std::size_t tile;  // number of columns that share one reading of the weights

    // y[c][o] = dot(weight[o], x[c]) + bias[o]. x[c] has steps * kPartials values, y[c] room for whole blocks.
    void (*multiply)(const MatrixView& matrix, const float* const* x, std::size_t columns, float* const* y);

    // gates [4, units] = input + recurrent, in the order of torch: input, forget, candidate, output.
    void (*lstm)(const float* input, const float* recurrent, std::size_t units, float* cell, float* hidden);

    void (*join)(const float* encoder, const float* prediction, Activation activation, std::size_t n,
                 float* hidden);

    // Rounds each value to the nearest bfloat16.
    void (*round)(float* values, std::size_t n);

    Rank (*rank)(const float* values, std::size_t n);

    // Sum of exp_of(value - largest).
    float (*exp_sum)(const float* values, std::size_t n, float largest);

    // With x the log-probs: the sum of exp_of(alpha * x), or of exp_of(alpha * x) * x if `weighted`.
    float (*power_sum)(const float* values, std::size_t n, float largest, float log_sum, float alpha,
                       bool weighted);
};

// The kernels that this machine can run, the fastest first; the last are portable.
const std::vector<const Kernels*>& available_kernels();

extern const Kernels kPortableKernels;
#if defined(__x86_64__) && defined(__GNUC__)
#define ARCBEAM_X86_KERNELS 1
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace arcbeam::transducer
