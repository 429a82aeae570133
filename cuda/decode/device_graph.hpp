// A decoding graph as it lies on a device: the columns of shared/graph_view.hpp in the order in which a search
// reads them. pyx/arcbeam/ctc/gpu/searches/graph_layout.py makes it.
#pragma once

#include <cstdint>

#include "shared/graph_view.hpp"

namespace arcbeam {

// The arcs of a state: [first_arc, first_emitting) are epsilon arcs, [first_emitting, arcs_end) read a frame.
struct alignas(16) StateArcs {
    std::uint32_t first_arc;
    std::uint32_t first_emitting;
    std::uint32_t arcs_end;
    float smallest_weight;  // of the emitting arcs; +inf where there are none
};

// The first epsilon arc of a state. Most states have one at most.
struct alignas(16) StateEpsilon {
    std::uint32_t next_state;
    float weight;
    std::uint32_t depth;  // of the state, see StateRecord; kNoIndex where no epsilon arc leaves it
    std::uint32_t
        entrance;  // of the open slot: 1 + the first of the arcs that enter it here; 0: none. And kWritesWords
};

constexpr std::uint32_t kWritesWords = 0x80000000U;  // with `entrance`: some epsilon arc of the state has a word

// Everything that a search needs of a state it has reached: one sector of memory.
struct alignas(32) StateRow {
    StateArcs arcs;
    StateEpsilon epsilon;
};

// The labels of arcs, see device_graph.cuh, are read in chunks by loads of 16 bytes. Their array is padded to whole
// chunks.
constexpr std::uint32_t kChunk = 8U;

struct alignas(16) LabelChunk {
    std::uint64_t words[2];

    ARCBEAM_HD std::uint32_t label(std::uint32_t i) const {
        return static_cast<std::uint32_t>((i < 4U ? words[0] : words[1]) >> 16U * (i & 3U) & 0xffffU);
    }
};

struct DeviceGraphView {
    const StateRow* states;       // [num_states]
    const ArcTarget* targets;     // [num_arcs]
    const std::uint16_t* labels;  // [num_arcs]
    const float* finals;          // [num_states]; +inf where not final
    std::uint32_t start;
    std::uint32_t column_bits;  // of a label
};

}  // namespace arcbeam
