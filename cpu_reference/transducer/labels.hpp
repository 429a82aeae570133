// Labels that a search has written, and the entries of an n-best list.
#pragma once

#include <cstdint>
#include <vector>

namespace arcbeam::transducer {

struct Labels {
    std::vector<std::uint32_t> tokens;
    std::vector<std::int64_t> frames;  // counted from the start of the stream
    std::vector<std::uint32_t> durations;
    std::vector<float> log_probs;
    std::vector<float> confidences;
};

struct Alternative : Labels {
    double score = 0.0;
    double posterior = 0.0;  // among all that the search has ended with
};

}  // namespace arcbeam::transducer
