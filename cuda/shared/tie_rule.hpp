// Which of two candidates for one key wins, written once for both engines (law 2 of docs/design/rules.md). The
// smaller cost wins, then the smaller arc id: the position of the arc in the compiled graph, which survives saving
// and loading. So no tie depends on a thread, a queue or an address. Ties that remain with a large language model
// are broken by the source's history: cuda/rescore/order.cuh and cpu_reference/decode/models.hpp.
#pragma once

#include <cstdint>
#include <cstring>

#include "shared/cost.hpp"

namespace arcbeam {

ARCBEAM_HD bool wins(float cost, std::uint32_t arc, float over_cost, std::uint32_t over_arc) {
    return cost < over_cost || (cost == over_cost && arc < over_arc);
}

// Maps a cost to an unsigned integer of the same order, so that a 64-bit minimum over (cost, arc) finds
// the winner. Costs are never -0: they start at +0, and no sum or difference of theirs rounds to -0.
ARCBEAM_HD std::uint32_t ordered(float cost) {
    std::uint32_t bits;
    std::memcpy(&bits, &cost, sizeof bits);
    return (bits & 0x80000000U) != 0U ? ~bits : bits | 0x80000000U;
}

ARCBEAM_HD float from_ordered(std::uint32_t key) {
    const std::uint32_t bits = (key & 0x80000000U) != 0U ? key & 0x7fffffffU : ~key;
    float cost;
    std::memcpy(&cost, &bits, sizeof cost);
    return cost;
}

// The same order as a number: of two candidates the one with the smaller number wins.
ARCBEAM_HD std::uint64_t pack(float cost, std::uint32_t arc) {
    return static_cast<std::uint64_t>(ordered(cost)) << 32U | arc;
}

ARCBEAM_HD float packed_cost(std::uint64_t packed) {
    return from_ordered(static_cast<std::uint32_t>(packed >> 32U));
}

ARCBEAM_HD std::uint32_t packed_arc(std::uint64_t packed) { return static_cast<std::uint32_t>(packed); }

}  // namespace arcbeam
