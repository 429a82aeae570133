// The arithmetic of transducer networks, written once for both engines.
//
// Every operation is one IEEE float32 operation, rounded to nearest: products and sums are fused exactly where fmaf
// is written (-fmad=false, -ffp-contract=off), divisions are correctly rounded on both sides, and no library
// function is called, so equal inputs give equal bytes on every machine.
//
// A dot product of n elements has kPartials partial sums. Partial p starts at +0 and takes the elements p,
// p + kPartials, ... in that order, each with one fmaf(weight, input, partial); elements from n up to the next
// multiple of kPartials count as 0 * 0. The partials are then added in a tree: for s = 16, 8, 4, 2, 1
//
//     partial[p] = partial[p] + partial[p + s]        for p < s
//
// A warp does this with __shfl_xor_sync, where thread p holds partial p. A bias is added to the tree's result. Sums
// over tokens (softmax, entropy) have the same partials and tree, with plain additions.
#pragma once

#include <cstdint>
#include <cstring>

#include "shared/portable.hpp"

namespace arcbeam::transducer {

constexpr int kPartials = 32;

ARCBEAM_INLINED float fused(float a, float b, float c) { return ARCBEAM_FMA(a, b, c); }

ARCBEAM_INLINED std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

ARCBEAM_INLINED float from_bits(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Neither infinite nor NaN.
ARCBEAM_INLINED bool is_number(float value) { return (bits_of(value) & 0x7f800000U) != 0x7f800000U; }

// e^x, within 1 ulp for x in [-87.33, 88.37]; 0 below, and the value at 88.37 above: never infinite.
ARCBEAM_INLINED float exp_of(float x) {
    constexpr float kLowest = -87.33F;
    constexpr float kHighest = 88.37F;
    constexpr float kLog2E = 1.44269502F;
    constexpr float kLn2High = 0.693145752F;   // 16 bits: its product with n is exact
    constexpr float kLn2Low = 1.42860677e-6F;  // ln 2 - kLn2High
    constexpr float kRound = 12582912.0F;      // 1.5 * 2^23: adding it rounds to a whole number
    constexpr std::uint32_t kRoundBits = 0x4b400000U;
    const float low = x < kLowest ? kLowest : x;
    const float within = low > kHighest ? kHighest : low;
    const float shifted = fused(within, kLog2E, kRound);
    const float n = shifted - kRound;
    const float r = fused(n, -kLn2Low, fused(n, -kLn2High, within));
    float p = 0.00019569534924812615F;
    p = fused(p, r, 0.0013935425085946918F);
    p = fused(p, r, 0.008333896286785603F);
    p = fused(p, r, 0.041666459292173386F);
    p = fused(p, r, 0.166666641831398F);
    p = fused(p, r, 0.5F);
    const float grown = fused(p, r * r, r) + 1.0F;
    const float power = from_bits((bits_of(shifted) - kRoundBits + 127U) << 23U);
    return x < kLowest ? 0.0F : grown * power;
}

// Natural logarithm of a normal, positive number, within 1 ulp.
ARCBEAM_INLINED float log_of(float x) {
    constexpr float kLn2High = 0.693145752F;
    constexpr float kLn2Low = 1.42860677e-6F;
    constexpr std::uint32_t kTwoThirds = 0x3f2aaaabU;
    const std::uint32_t above = bits_of(x) - kTwoThirds;
    const auto exponent = static_cast<std::int32_t>(above) >> 23;
    const float n = static_cast<float>(exponent);
    const float f = from_bits(kTwoThirds + (above & 0x007fffffU)) - 1.0F;  // x = 2^n (1 + f), f in [-1/3, 1/3]
    float p = -0.1288565695285797F;
    p = fused(p, f, 0.13986897468566895F);
    p = fused(p, f, -0.12185713648796082F);
    p = fused(p, f, 0.14005306363105774F);
    p = fused(p, f, -0.1668037623167038F);
    p = fused(p, f, 0.2001044601202011F);
    p = fused(p, f, -0.24999800324440002F);
    p = fused(p, f, 0.3333321511745453F);
    const float square = f * f;
    const float rest = fused(p * f, square, fused(-0.5F, square, n * kLn2Low));
    return fused(n, kLn2High, f + rest);
}

// 1 / (1 + e^-x), within 2.5 ulp for x above -87.
ARCBEAM_INLINED float sigmoid_of(float x) {
    const float e = exp_of(x < 0.0F ? x : -x);
    return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}

// Hyperbolic tangent, within 1.5 ulp.
ARCBEAM_INLINED float tanh_of(float x) {
    const float size = x < 0.0F ? -x : x;
    const float square = x * x;
    float p = -0.005700086709111929F;
    p = fused(p, square, 0.020634116604924202F);
    p = fused(p, square, -0.05373793840408325F);
    p = fused(p, square, 0.13331416249275208F);
    p = fused(p, square, -0.3333328068256378F);
    const float near = fused(p * square, x, x);
    const float capped = size > 10.0F ? 10.0F : size;
    const float far = 1.0F - 2.0F / (exp_of(2.0F * capped) + 1.0F);
    return size < 0.625F ? near : (x < 0.0F ? -far : far);
}

ARCBEAM_INLINED float relu_of(float x) { return x > 0.0F ? x : 0.0F; }

// An LSTM unit, with gates in torch's order. A gate is the sum of the input's part (with both biases) and the part
// of the units before.
ARCBEAM_INLINED float lstm_cell(float input_gate, float forget_gate, float candidate, float cell) {
    return fused(sigmoid_of(forget_gate), cell, sigmoid_of(input_gate) * tanh_of(candidate));
}
ARCBEAM_INLINED float lstm_hidden(float output_gate, float cell) { return sigmoid_of(output_gate) * tanh_of(cell); }

// Log-prob of a token, from its logit, the largest logit, and log_of(sum of exp_of(logit - largest)).
ARCBEAM_INLINED float log_prob(float logit, float largest, float log_sum) { return (logit - largest) - log_sum; }

}  // namespace arcbeam::transducer
