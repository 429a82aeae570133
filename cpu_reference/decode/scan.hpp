// Finds the arcs of a state that a token can still afford, by their columns: the inner loop over states of many
// arcs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/clones.hpp"
#include "shared/cost.hpp"

namespace arcbeam::twin {

// Writes the positions p in [0, n) with ((cost + acoustic[columns[p]]) + weight) <= bound to `found`, in order, and
// returns how many there are. `found` has room for n.
ARCBEAM_CLONES
[[maybe_unused]] static std::size_t scan(const std::uint16_t* columns, std::size_t n, const float* acoustic,
                                         float cost, float weight, float bound, std::uint32_t* found) {
    constexpr std::size_t kRun = 64;
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < n; begin += kRun) {
        // First a vector loop without branches, then eight results at a time, because most are "no".
        std::uint8_t within[kRun] = {};
        const std::size_t run = n - begin < kRun ? n - begin : kRun;
        for (std::size_t i = 0; i < run; ++i) {
            within[i] = extend(cost, acoustic[columns[begin + i]], weight) <= bound ? 1 : 0;
        }
        for (std::size_t i = 0; i < run; i += 8) {
            std::uint64_t eight;
            std::memcpy(&eight, within + i, sizeof eight);
            for (std::size_t j = i; eight != 0; ++j, eight >>= 8U) {
                found[count] = static_cast<std::uint32_t>(begin + j);
                count += eight & 1U;
            }
        }
    }
    return count;
}

}  // namespace arcbeam::twin
