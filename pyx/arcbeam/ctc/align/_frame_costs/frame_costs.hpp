// What the frames of utterances cost, whatever path a text takes through them, and the log-probs along a path.
//
// in   log-probs of utterances; `reads` [utterances, columns]: whether a text may take a column; `star`
// [utterances]:
//      what a frame of a star costs besides its column, which may be any; +inf without stars
// out  of each utterance the sum of the smallest costs of its frames, by law 1, and the sum of their magnitudes
#pragma once

#include <cstdint>
#include <vector>

#include "decode/acoustic.hpp"

namespace arcbeam::align {

struct Sums {
    double costs;
    double magnitudes;
};

std::vector<Sums> smallest_sums(const std::vector<twin::LogProbs>& batch, const std::uint8_t* reads,
                                const float* star, twin::Acoustic costs);

// Frame after frame of all utterances: the log-prob of the column that a path reads.
void log_probs_along(const std::vector<twin::LogProbs>& batch, const std::int32_t* columns, float* into);

}  // namespace arcbeam::align
