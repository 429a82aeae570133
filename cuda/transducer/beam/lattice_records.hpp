// What a kernel writes down of a lattice, in the order of the search; the host makes the lattice of it.
#pragma once

#include <cstdint>

namespace arcbeam::transducer::beam {

// A hypothesis that was live on a place: a frame, and so many labels on it. The end is the frame after the last.
struct alignas(16) TokenRecord {
    std::uint32_t frame;
    std::uint32_t symbols;
    std::uint32_t node;  // its history
    std::uint32_t padding;
};

// A candidate that was admitted.
struct ArcRecord {
    std::uint32_t source;    // a token
    std::uint32_t node;      // its history
    std::uint32_t label;     // or the blank
    std::uint32_t duration;  // its place in the list of durations
    float log_prob;          // of the network: the label's and the duration's
    float score;             // the same with what models make of it
};

}  // namespace arcbeam::transducer::beam
