// The columns of a graph while they are being written, and the raw arcs that they are compiled from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "shared/graph_view.hpp"

namespace arcbeam {

constexpr std::uint32_t kMostColumns = 65535U;      // 0xffff means epsilon
constexpr std::uint64_t kMostStates = 0x7fffffffU;  // OpenFst numbers states with a signed integer
constexpr std::uint64_t kMostArcs = 0xfffffffeU;

// An arc in the layout that OpenFst's `standard` arc type has in memory and in files. Labels and states are signed
// 32-bit integers there; a negative state is read as a number that is too large to exist.
struct RawArc {
    std::int32_t input;
    std::int32_t output;
    float weight;
    std::uint32_t next_state;
};
static_assert(sizeof(RawArc) == 16U, "an OpenFst arc takes 16 bytes");

// Raw arcs in the order of their states, with a fixed gap between the arcs of one state and the next: 12 bytes in a
// vector file (final weight and number of arcs), none in a const file or an array. Bytes may be unaligned.
struct RawArcs {
    const unsigned char* first;
    std::size_t gap;

    const unsigned char* at(std::uint64_t state, std::uint64_t arc) const {
        return first + gap * state + sizeof(RawArc) * arc;
    }
};

inline RawArc load_arc(const unsigned char* bytes) {
    RawArc arc;
    std::memcpy(&arc, bytes, sizeof arc);
    return arc;
}

// Maps an input label to the column it reads: label l reads column l - 1, or label_to_column[l] if a table is
// given.
struct LabelMap {
    const std::int32_t* label_to_column;  // [size], or null; negative where the label has no column
    std::uint64_t size;
    std::uint32_t num_columns;  // number of columns of the log-probs; kMostColumns if it is not known
};

// Python owns these arrays; their sizes are as in GraphView.
struct GraphColumns {
    StateRecord* states;     // [num_states + 1]
    ArcTarget* targets;      // [num_arcs]
    std::uint16_t* columns;  // [num_arcs]
    std::uint32_t* words;    // [num_arcs]
    float* finals;           // [num_states]
    std::uint32_t num_states;
    std::uint32_t num_arcs;
};

}  // namespace arcbeam
