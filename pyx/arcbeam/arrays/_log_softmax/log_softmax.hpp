// Log-probs of logits, once for both engines.
//
// in   logits of utterances, float32 or float16
// out  float32, row after row: x = (logit - largest) - log(sum of e^(logit - largest))
// rule arithmetic, partial sums and their tree are those of shared/transducer_math.hpp: equal logits, equal bytes.
//      A row with NaN or +inf, or with nothing above -inf, stays as it is.
#pragma once

#include <vector>

#include "decode/acoustic.hpp"

namespace arcbeam {

void log_softmax(const std::vector<twin::LogProbs>& logits, float* into);

}  // namespace arcbeam
