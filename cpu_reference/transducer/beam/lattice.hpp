// The lattice of a beam search: hypotheses that were live, and the steps between them that lead to the end.
#pragma once

#include <cstdint>
#include <vector>

namespace arcbeam::transducer::beam {

// A step from one token to another.
struct LatticeArc {
    std::uint32_t source;  // a token
    std::uint32_t target;
    std::uint32_t label;     // or the blank
    std::uint32_t duration;  // its place in the list of durations
    float log_prob;          // of the network: the label's and the duration's
    float score;             // the same with what models make of it
};

// An admitted candidate, whose target is not known yet.
struct Arrival {
    std::uint32_t node;  // its history
    LatticeArc arc;
};

// Tokens by (frame, depth, rank); an arc leads to a larger one. Arcs by (target, order of arrival).
struct Lattice {
    std::vector<std::int64_t> frames;   // [tokens]
    std::vector<std::uint32_t> depths;  // [tokens]: labels written on the frame
    std::vector<LatticeArc> arcs;
};

}  // namespace arcbeam::transducer::beam
