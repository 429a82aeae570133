// Positive float64 numbers of any size, for sums over the paths of an hour of speech: they neither overflow nor
// underflow, and every operation rounds as float64 would if its exponents had no bounds.
//
// Posteriors are linear sums (law 8 of docs/design/rules.md). A sum of logs would need a log for each link, and it
// would lose as many fractional digits as the log has before the point.
#pragma once

#include <cstdint>
#include <cstring>

namespace arcbeam::lattice {

constexpr double kBlock = 0x1p256;
constexpr double kInverseBlock = 0x1p-256;
constexpr double kLargestMantissa = 0x1p128;    // excluded
constexpr double kSmallestMantissa = 0x1p-128;  // included
constexpr double kVanishing = 600.0;            // e^-x counts as 0 from here on, so that products stay normal

// mantissa * 2^(256 blocks), with the mantissa in [2^-128, 2^128), or 0.
struct Scaled {
    double mantissa = 0.0;
    std::int32_t blocks = 0;
};

// `value` may lie outside the range of mantissas. Powers of two are exact.
inline Scaled normal(double value, std::int32_t blocks) {
    if (value == 0.0) {
        return {};
    }
    while (value >= kLargestMantissa) {
        value *= kInverseBlock;
        ++blocks;
    }
    while (value < kSmallestMantissa) {
        value *= kBlock;
        --blocks;
    }
    return {value, blocks};
}

// `factor` in [e^-600, 2^128), or 0.
inline Scaled times(const Scaled& a, double factor) {
    const double product = a.mantissa * factor;
    if (product >= kSmallestMantissa && product < kLargestMantissa) {
        return {product, a.blocks};
    }
    return normal(product, a.blocks);
}

inline Scaled times(const Scaled& a, const Scaled& b) {
    return normal(a.mantissa * b.mantissa, a.blocks + b.blocks);
}

inline Scaled plus(const Scaled& a, const Scaled& b) {
    if (a.blocks == b.blocks) {
        const double sum = a.mantissa + b.mantissa;
        return sum < kLargestMantissa ? Scaled{sum, a.blocks} : normal(sum, a.blocks);
    }
    if (a.mantissa == 0.0 || b.mantissa == 0.0) {
        return a.mantissa == 0.0 ? b : a;
    }
    const Scaled& large = a.blocks > b.blocks ? a : b;
    const Scaled& small = a.blocks > b.blocks ? b : a;
    if (large.blocks - small.blocks > 1) {
        return large;  // the other is below 2^-256 of it
    }
    return normal(large.mantissa + small.mantissa * kInverseBlock, large.blocks);
}

// a / b for b > 0, where a is a part of b: at most 1, also where rounding gives more.
inline double share(const Scaled& a, const Scaled& b) {
    double quotient = a.mantissa / b.mantissa;
    for (std::int32_t blocks = a.blocks; blocks < b.blocks && quotient > 0.0; ++blocks) {
        quotient *= kInverseBlock;
    }
    for (std::int32_t blocks = b.blocks; blocks < a.blocks && quotient < 1.0; ++blocks) {
        quotient *= kBlock;
    }
    return quotient < 1.0 ? quotient : 1.0;
}

// e^-x for x >= 0, within 1.5 ulp; 1 at 0, and 0 from kVanishing on. Without a library function, whose last bit
// differs between machines, and without contraction.
inline double exp_of_minus(double x) {
    constexpr double kLog2E = 1.4426950408889634;
    constexpr double kLn2High = 0.6931471803691238;  // 32 bits: its product with n is exact
    constexpr double kLn2Low = 1.9082149292705877e-10;
    constexpr double kRound = 0x1.8p52;  // adding it rounds to a whole number
    const double within = -(x < kVanishing ? x : kVanishing);
    const double shifted = within * kLog2E + kRound;
    const double n = shifted - kRound;
    const double r = (within - n * kLn2High) - n * kLn2Low;  // e^-x = 2^n e^r, r in [-ln 2 / 2, ln 2 / 2]
    double p = 2.510038549551032e-08;                        // (e^r - 1 - r) / r^2
    p = p * r + 2.7620088445409746e-07;
    p = p * r + 2.7557268459997064e-06;
    p = p * r + 2.4801521295954376e-05;
    p = p * r + 0.00019841269863053618;
    p = p * r + 0.0013888888917213717;
    p = p * r + 0.008333333333330062;
    p = p * r + 0.04166666666662413;
    p = p * r + 0.16666666666666669;
    p = p * r + 0.5000000000000001;
    std::uint64_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023U) << 52U;
    double power;
    std::memcpy(&power, &bits, sizeof power);
    const double result = ((p * (r * r) + r) + 1.0) * power;
    return result * static_cast<double>(x < kVanishing);
}

// ln a for a > 0.
inline double log_of(const Scaled& a) {
    constexpr double kLn2 = 0.6931471805599453;
    std::uint64_t bits;
    std::memcpy(&bits, &a.mantissa, sizeof bits);
    std::int64_t exponent = static_cast<std::int64_t>(bits >> 52U) - 1023;
    bits = (bits & 0x000fffffffffffffU) | 0x3ff0000000000000U;
    double fraction;
    std::memcpy(&fraction, &bits, sizeof fraction);
    if (fraction > 1.4142135623730951) {
        fraction *= 0.5;
        ++exponent;
    }
    const double s = (fraction - 1.0) / (fraction + 1.0);  // ln fraction = 2 (s + s^3 / 3 + s^5 / 5 + ...)
    double sum = 0.0;
    for (int k = 25; k > 1; k -= 2) {
        sum = (sum + 1.0 / static_cast<double>(k)) * (s * s);
    }
    exponent += 256 * static_cast<std::int64_t>(a.blocks);
    return static_cast<double>(exponent) * kLn2 + 2.0 * (s + s * sum);
}

}  // namespace arcbeam::lattice
