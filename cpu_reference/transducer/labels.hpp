// Labels that a search has written, and n-best lists of them.
#pragma once

#include <array>
#include <cstddef>
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

// What the n-gram model, the boosting tree, the second n-gram model (LODR) and the internal language model have
// added.
constexpr std::size_t kShares = 4;
using Shares = std::array<double, kShares>;

// The labels of all entries, one after the other.
struct NBest : Labels {
    std::vector<std::uint64_t> ends;  // of each entry's labels
    std::vector<double> scores;
    std::vector<double> posteriors;  // among all that the search has ended with
    std::vector<Shares> shares;      // of the scores
};

}  // namespace arcbeam::transducer
