// Macros that let one header compile under nvcc and under a plain C++17 compiler.
#pragma once

#if defined(__CUDACC__)
#define ARCBEAM_HD __host__ __device__ __forceinline__
#else
#define ARCBEAM_HD inline
#endif

// a * b + c with one rounding.
#if defined(__CUDA_ARCH__)
#define ARCBEAM_FMA(a, b, c) __fmaf_rn(a, b, c)
#else
#define ARCBEAM_FMA(a, b, c) __builtin_fmaf(a, b, c)
#endif

#if defined(__GNUC__) && !defined(__CUDACC__)
#define ARCBEAM_INLINED ARCBEAM_HD __attribute__((always_inline))  // into code for any vector unit
#else
#define ARCBEAM_INLINED ARCBEAM_HD
#endif

// Placed before a loop: the compiler does not unroll it. This is for loops that run seldom in code where frames run
// often. Unrolled, they would take registers, and values spilled for them are spilled in every frame. A function
// that is called instead costs more: where there are calls, nvcc 13.0 sets up the base of every access anew.
#if defined(__CUDACC__)
#define ARCBEAM_ROLLED _Pragma("unroll 1")
#else
#define ARCBEAM_ROLLED
#endif
