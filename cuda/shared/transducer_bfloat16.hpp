// bfloat16, the upper half of a float32, written once for both engines.
//
// With precision bfloat16 weights are rounded once, and so is every value that a matrix is multiplied by: frames,
// embeddings, hidden states, the joint network's hidden layer. The product of two such numbers is exact in float32;
// sums, biases, gates and cells stay in float32.
#pragma once

#include <cstdint>

#include "shared/transducer_math.hpp"

namespace arcbeam::transducer {

// The nearest bfloat16; if two are equally near, the even one. Values beyond the largest give an infinity, NaN
// gives a NaN.
ARCBEAM_INLINED std::uint32_t to_bfloat16(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t nearest = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    return (bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : nearest;
}

ARCBEAM_INLINED float round_to_bfloat16(float value) { return from_bits(to_bfloat16(value) << 16U); }

}  // namespace arcbeam::transducer
