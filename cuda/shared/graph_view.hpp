// A compiled decoding graph as both engines read it: columns of plain arrays, owned elsewhere.
//
// The arcs of a state are contiguous: its epsilon arcs first, in their original order, then its emitting arcs,
// stably sorted by column. An arc's position is its id, which breaks ties and survives save and load. The columns
// that a search reads often take 10 bytes an arc (next state, weight, column). Output labels are read seldom and
// are stored apart.
#pragma once

#include <cstdint>

#include "shared/portable.hpp"

namespace arcbeam {

constexpr std::uint16_t kEpsilonColumn = 0xffffU;  // column of an arc that reads no frame
constexpr std::uint32_t kNoWord = 0U;              // output label of an arc that writes no word

struct StateRecord {
    std::uint32_t first_arc;
    std::uint32_t first_emitting;  // epsilon arcs are [first_arc, first_emitting)
    float smallest_weight;         // over the emitting arcs; +inf where there are none
    std::uint32_t depth;           // arcs on the longest epsilon path that ends here
};

struct ArcTarget {
    std::uint32_t next_state;
    float weight;
};

struct GraphView {
    const StateRecord* states;     // [num_states + 1]; the last one closes the arcs of the one before
    const ArcTarget* targets;      // [num_arcs]
    const std::uint16_t* columns;  // [num_arcs]
    const std::uint32_t* words;    // [num_arcs]
    const float* finals;           // [num_states]; +inf where not final
    std::uint32_t num_states;
    std::uint32_t num_arcs;
    std::uint32_t start;
    std::uint32_t max_depth;  // over all states

    ARCBEAM_HD std::uint32_t arcs_end(std::uint32_t state) const { return states[state + 1].first_arc; }
};

}  // namespace arcbeam
