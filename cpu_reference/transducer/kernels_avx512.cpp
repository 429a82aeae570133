// The kernels for AVX-512.
#include "transducer/kernels.hpp"

#if defined(ARCBEAM_X86_KERNELS)
#include <immintrin.h>

#include "shared/transducer_bfloat16.hpp"
#include "transducer/confidence.hpp"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,avx512f,avx512vl,avx512dq,avx512bw"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")
#endif

namespace arcbeam::transducer {
namespace {

struct Vector {
    static constexpr int kWidth = 16;
    __m512 v;
    static Vector zero() { return {_mm512_setzero_ps()}; }
    static Vector load(const float* at) { return {_mm512_loadu_ps(at)}; }
    static void store(float* at, Vector a) { _mm512_storeu_ps(at, a.v); }
    static Vector add(Vector a, Vector b) { return {_mm512_add_ps(a.v, b.v)}; }
    static Vector broadcast(const float* input) { return {_mm512_set1_ps(*input)}; }
    static Vector multiply_add(Vector weights, Vector input, Vector sum) {
        return {_mm512_fmadd_ps(weights.v, input.v, sum.v)};
    }
};
constexpr int kMostColumns = 6;
constexpr int kPairColumns = 3;
constexpr std::size_t chains(int, int) { return 4; }

#include "transducer/kernels_body.hpp"

}  // namespace

const Kernels kAvx512Kernels{"avx512", kMostColumns, multiply, lstm, join, round, rank, exp_sum, power_sum};

}  // namespace arcbeam::transducer
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
