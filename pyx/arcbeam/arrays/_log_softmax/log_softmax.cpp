#include "arcbeam/arrays/_log_softmax/log_softmax.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "shared/transducer_math.hpp"
#include "transducer/confidence.hpp"

namespace arcbeam {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

ARCBEAM_INLINED void normalise(float* row, std::size_t n) {
    float largest = -kInfinity;
    bool sound = true;
    for (std::size_t i = 0; i < n; ++i) {
        sound = sound && row[i] < kInfinity;  // false for NaN, too
        largest = row[i] > largest ? row[i] : largest;
    }
    if (!sound || largest == -kInfinity) {
        return;
    }
    const float log_sum = transducer::log_of(transducer::powers_added(row, n, largest, 0.0F, 1.0F, false));
    for (std::size_t i = 0; i < n; ++i) {
        row[i] = transducer::log_prob(row[i], largest, log_sum);
    }
}

void anywhere(float* row, std::size_t n) { normalise(row, n); }

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#pragma GCC optimize("no-trapping-math")  // otherwise selects stay branches; no value depends on it
void by_avx2(float* row, std::size_t n) { normalise(row, n); }
#pragma GCC pop_options

auto fastest() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? by_avx2 : anywhere;
}
#else
auto fastest() { return anywhere; }
#endif

}  // namespace

void log_softmax(const std::vector<twin::LogProbs>& logits, float* into) {
    const auto normalise_row = fastest();
    for (const twin::LogProbs& utterance : logits) {
        for (std::uint32_t frame = 0; frame < utterance.frames; ++frame) {
            for (std::uint32_t column = 0; column < utterance.columns; ++column) {
                into[column] = utterance.at(frame, column);
            }
            normalise_row(into, utterance.columns);
            into += utterance.columns;
        }
    }
}

}  // namespace arcbeam
