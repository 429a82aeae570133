#include "frame_confidence/frames.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "common/avx2.hpp"

namespace arcbeam::frame_confidence {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Values that are no log-probs, or a sum that vanishes, may lead out of [0, 1], or to NaN, which becomes 0.
ARCBEAM_INLINED float of_row(const Confidence& measure, const float* row, std::size_t n) {
    float found = row[0];
    if (measure.statistic == Confidence::Statistic::kLargest) {
        for (std::size_t i = 1; i < n; ++i) {
            found = row[i] > found ? row[i] : found;
        }
    } else {
        const bool weighted = measure.statistic == Confidence::Statistic::kWeighted;
        found = transducer::powers_added(row, n, 0.0F, 0.0F, measure.alpha, weighted);
    }
    const float value = measure.of(found);
    return value > 0.0F ? std::min(value, 1.0F) : 0.0F;
}

float anywhere(const Confidence& measure, const float* row, std::size_t n) { return of_row(measure, row, n); }

ARCBEAM_WITH_AVX2 float by_avx2(const Confidence& measure, const float* row, std::size_t n) {
    return of_row(measure, row, n);
}

}  // namespace

Worker::Worker(bool portable) : of_row_(!portable && has_avx2() ? by_avx2 : anywhere) {}

void Worker::decode(const std::vector<Query>& batch, const std::vector<std::size_t>& members,
                    const std::atomic<bool>& cancel, std::vector<Answer>& answers) {
    for (const std::size_t member : members) {
        row_.reserve(batch[member].log_probs.columns);
        for (std::uint32_t frame = 0; frame < batch[member].log_probs.frames; ++frame) {
            if (cancel) {
                return;
            }
            measure(batch[member], frame);
        }
        answers[member].outcome = Outcome::kDone;
    }
}

void Worker::measure(const Query& query, std::uint32_t frame) {
    const twin::LogProbs& log_probs = query.log_probs;
    row_.clear();
    for (std::uint32_t column = 0; column < log_probs.columns; ++column) {
        const float value = log_probs.at(frame, column);
        if (value != kNever) {
            row_.push_back(value);
        }
    }
    query.into[frame] = row_.empty() ? 0.0F : of_row_(*query.measure, row_.data(), row_.size());
}

Engine::Engine(std::size_t threads, bool portable)
    : BatchEngine([portable] { return std::make_unique<Worker>(portable); }, threads) {}

}  // namespace arcbeam::frame_confidence
