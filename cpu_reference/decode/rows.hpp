// Loops over one frame of log-probs, in vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/clones.hpp"
#include "shared/half.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace arcbeam::twin {

// Whether none is NaN or +inf.
ARCBEAM_CLONES
[[maybe_unused]] static bool is_sound(const float* row, std::size_t n) {
    std::uint32_t bad = 0;
    for (std::size_t i = 0; i < n; ++i) {
        bad |= row[i] <= std::numeric_limits<float>::max() ? 0U : 1U;
    }
    return bad == 0;
}

ARCBEAM_CLONES
[[maybe_unused]] static bool is_sound(const std::uint16_t* row, std::size_t n) {
    std::uint16_t bad = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const bool is_special = (row[i] & 0x7c00U) == 0x7c00U;
        bad = static_cast<std::uint16_t>(bad | static_cast<std::uint16_t>(is_special & (row[i] != 0xfc00U)));
    }
    return bad == 0;
}

// The smallest value; which of two zeros, does not matter.
ARCBEAM_CLONES
[[maybe_unused]] static float smallest_of(const float* values, std::size_t n) {
    constexpr std::size_t kWide = 16;
    float least[kWide];
    for (float& value : least) {
        value = values[0];
    }
    std::size_t i = 0;
    for (; i + kWide <= n; i += kWide) {
        for (std::size_t j = 0; j < kWide; ++j) {
            least[j] = values[i + j] < least[j] ? values[i + j] : least[j];
        }
    }
    for (; i < n; ++i) {
        least[0] = values[i] < least[0] ? values[i] : least[0];
    }
    for (const float value : least) {
        least[0] = value < least[0] ? value : least[0];
    }
    return least[0];
}

#if defined(__x86_64__) && defined(__GNUC__)
// Widens as many halves as come in eights, and returns how many. The processor has one instruction for it.
[[gnu::target("avx,f16c")]] [[maybe_unused]] static std::size_t widen_eights(const std::uint16_t* row,
                                                                             std::size_t n, float* out) {
    std::size_t i = 0;
    for (; i + 8U <= n; i += 8U) {
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i))));
    }
    return i;
}
#endif

inline void widen(const std::uint16_t* row, std::size_t n, float* out) {
    std::size_t i = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    static const bool has_f16c = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
    i = has_f16c ? widen_eights(row, n, out) : 0U;
#endif
    for (; i < n; ++i) {
        out[i] = half_to_float(row[i]);
    }
}

}  // namespace arcbeam::twin
