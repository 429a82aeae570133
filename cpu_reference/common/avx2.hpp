// For functions that are compiled a second time, for the vector unit of most machines.
#pragma once

namespace arcbeam {

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#define ARCBEAM_WITH_AVX2 [[gnu::target("avx2,fma")]]
#else
// Without `no-trapping-math` selects would stay branches; no value depends on it.
#define ARCBEAM_WITH_AVX2 [[gnu::target("avx2,fma"), gnu::optimize("no-trapping-math")]]
#endif

inline bool has_avx2() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define ARCBEAM_WITH_AVX2

inline bool has_avx2() { return false; }
#endif

}  // namespace arcbeam
