// The names of CUDA C++ that kernels of other libraries use, by those of the emulator (tests/simt/emulator.hpp).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "shared/simt.cuh"

#define __device__
#define __forceinline__ inline
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define threadIdx (cuda_on_host::Index{::arcbeam::simt::thread_rank()})
#define blockIdx (cuda_on_host::Index{::arcbeam::simt::block_rank()})
#define blockDim (cuda_on_host::Index{::arcbeam::simt::block_size()})
#define gridDim (cuda_on_host::Index{::arcbeam::simt::grid_size()})

using std::isfinite;
using std::isinf;

namespace cuda_on_host {

struct Index {
    unsigned x;
};

// The upper half of a float, rounded to the nearest, ties to even.
struct Bfloat16 {
    std::uint16_t bits;
};

}  // namespace cuda_on_host

using __nv_bfloat16 = cuda_on_host::Bfloat16;

inline float __bfloat162float(__nv_bfloat16 value) {
    const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16U;
    float wide;
    std::memcpy(&wide, &bits, sizeof wide);
    return wide;
}

inline __nv_bfloat16 __float2bfloat16(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U)};
}

using half = _Float16;
inline float __half2float(half value) { return static_cast<float>(value); }
inline half __float2half(float value) { return static_cast<half>(value); }

struct alignas(16) uint4 {
    std::uint32_t x, y, z, w;
};
inline uint4 make_uint4(std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) { return {x, y, z, w}; }
inline int min(int a, int b) { return a < b ? a : b; }

inline void __syncthreads() { arcbeam::simt::block_barrier(); }
inline int __syncthreads_or(int vote) { return arcbeam::simt::block_barrier_or(vote != 0); }
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
    return arcbeam::simt::shuffle_down(mask, value, delta);
}
inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long old, unsigned long long now) {
    __atomic_compare_exchange_n(at, &old, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
inline unsigned long long atomicExch(unsigned long long* at, unsigned long long now) {
    return __atomic_exchange_n(at, now, __ATOMIC_RELAXED);
}
