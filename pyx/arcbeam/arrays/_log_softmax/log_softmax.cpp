#include "arcbeam/arrays/_log_softmax/log_softmax.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/avx2.hpp"
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

ARCBEAM_WITH_AVX2 void by_avx2(float* row, std::size_t n) { normalise(row, n); }

}  // namespace

void log_softmax(const std::vector<twin::LogProbs>& logits, float* into) {
    const auto normalise_row = has_avx2() ? by_avx2 : anywhere;
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
