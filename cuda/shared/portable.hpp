// What lets one header compile under nvcc and under a plain C++17 compiler.
#pragma once

#if defined(__CUDACC__)
#define ARCBEAM_HD __host__ __device__ __forceinline__
#else
#define ARCBEAM_HD inline
#endif
