// The kernels for AVX2 with FMA.
#include "transducer/kernels.hpp"

#if defined(ARCBEAM_X86_KERNELS)
#include <immintrin.h>

#include "shared/transducer_bfloat16.hpp"
#include "transducer/confidence.hpp"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#pragma GCC optimize("no-trapping-math")  // otherwise selects stay branches; no value depends on it
#endif

namespace arcbeam::transducer {
namespace {

struct Vector {
    static constexpr int kWidth = 8;
    __m256 v;
    static Vector zero() { return {_mm256_setzero_ps()}; }
    static Vector load(const float* at) { return {_mm256_loadu_ps(at)}; }
    static void store(float* at, Vector a) { _mm256_storeu_ps(at, a.v); }
    static Vector add(Vector a, Vector b) { return {_mm256_add_ps(a.v, b.v)}; }
    static Vector broadcast(const float* input) { return {_mm256_broadcast_ss(input)}; }
    static Vector multiply_add(Vector weights, Vector input, Vector sum) {
        return {_mm256_fmadd_ps(weights.v, input.v, sum.v)};
    }
};
constexpr int kMostColumns = 3;
constexpr int kPairColumns = 3;
constexpr std::size_t chains(int vectors, int columns) { return vectors * columns > 2 ? 2 : 4; }

#include "transducer/kernels_body.hpp"

}  // namespace

const Kernels kAvx2Kernels{"avx2", kMostColumns, multiply, lstm, join, round, rank, exp_sum, power_sum};

}  // namespace arcbeam::transducer
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
