// What a search keeps for lattices and to merge by context, which others lack: the structs through which the host
// and the kernels talk to each other.
#pragma once

#include <cstdint>

#include "transducer/beam/beam_memory.hpp"
#include "transducer/beam/lattice_records.hpp"

namespace arcbeam::transducer::beam {

// What there is room for in one utterance.
struct LatticeRooms {
    std::uint32_t tokens;
    std::uint32_t arcs;
    std::uint32_t nodes;  // as in Rooms
};

// How much is there.
struct LatticeCounts {
    std::uint32_t tokens;
    std::uint32_t arcs;
};

// The arrays of all utterances, by lane, and in that order.
struct LatticeMemory {
    LatticeCounts* counts;    // [lanes]
    TokenRecord* tokens;      // if lattices are kept, [lanes][tokens]
    ArcRecord* arcs;          // if lattices are kept, [lanes][arcs]
    std::uint32_t* contexts;  // with merge_context, [lanes][nodes]: the first history that has a history's context
    std::uint32_t* firsts;    // with merge_context, [lanes][2 nodes]: a table of these, plus 1; 0 is empty
    LatticeRooms rooms;
};

struct LatticeParams {
    LatticeMemory memory;
    LatticeMemory before;         // of the launch that this one goes on from
    std::uint32_t keeps;          // 1: lattices are kept
    std::uint32_t merge_context;  // labels; 0: only equal histories are merged
};

struct LatticeBeamLoopParams {
    FusedBeamLoopParams search;
    LatticeParams lattices;
};

// Lays the arrays out in memory that is 0 at first; their bytes are returned.
inline std::uint64_t lay_out_lattices(std::uint64_t lanes, std::uint64_t at, LatticeParams& params) {
    const std::uint64_t first = at;
    LatticeMemory& memory = params.memory;
    const auto take = [&at](auto*& array, std::uint64_t count) {
        array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at);
        at += padded16(count * sizeof(*array));
    };
    const std::uint64_t kept = params.keeps != 0U ? lanes : 0U;
    const std::uint64_t merged = params.merge_context > 0U ? lanes : 0U;
    take(memory.counts, lanes);
    take(memory.tokens, kept * memory.rooms.tokens);
    take(memory.arcs, kept * memory.rooms.arcs);
    take(memory.contexts, merged * memory.rooms.nodes);
    take(memory.firsts, 2U * merged * memory.rooms.nodes);
    return at - first;
}

}  // namespace arcbeam::transducer::beam
