// IEEE float16 to float32, exact, written once for both engines.
#pragma once

#include <cstdint>
#include <cstring>

#include "shared/portable.hpp"

namespace arcbeam {

ARCBEAM_HD float half_to_float(std::uint16_t half) {
    const std::uint32_t exponent = (half >> 10U) & 0x1fU;
    const std::uint32_t mantissa = half & 0x3ffU;
    std::uint32_t bits;
    float value;
    if (exponent == 0U) {  // zero and subnormals: a whole number of 2^-24, exact and normal in float32
        value = static_cast<float>(mantissa) * 5.9604644775390625e-8F;
        std::memcpy(&bits, &value, sizeof bits);
    } else {
        bits = (exponent == 0x1fU ? 0x7f800000U : (exponent + 112U) << 23U) | mantissa << 13U;
    }
    bits |= static_cast<std::uint32_t>(half & 0x8000U) << 16U;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace arcbeam
