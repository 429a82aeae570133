// Finds the arcs of a state that a token can still afford, by their columns: the inner loop over states of many
// arcs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/clones.hpp"
#include "shared/cost.hpp"

namespace arcbeam::twin {

// Writes the places p in [0, n) for which test(p) holds to `found`, which has room for n, and returns how many.
// A vector loop without branches, and then eight results at a time, because most are "no". Inlined, so that it is
// compiled for each vector unit of its caller.
template <typename Place, typename Test>
[[gnu::always_inline]] inline std::size_t places_where(std::size_t n, Test&& test, Place* found) {
    constexpr std::size_t kRun = 64;
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < n; begin += kRun) {
        std::uint8_t holds[kRun] = {};
        const std::size_t run = n - begin < kRun ? n - begin : kRun;
        for (std::size_t i = 0; i < run; ++i) {
            holds[i] = test(begin + i) ? 1 : 0;
        }
        for (std::size_t i = 0; i < run; i += 8) {
            std::uint64_t eight;
            std::memcpy(&eight, holds + i, sizeof eight);
            for (std::size_t j = i; eight != 0; ++j, eight >>= 8U) {
                found[count] = static_cast<Place>(begin + j);
                count += eight & 1U;
            }
        }
    }
    return count;
}

// Writes the positions p in [0, n) with ((cost + acoustic[columns[p]]) + weight) <= bound to `found`, in order, and
// returns how many there are. `found` has room for n.
ARCBEAM_CLONES
[[maybe_unused]] static std::size_t scan(const std::uint16_t* columns, std::size_t n, const float* acoustic,
                                         float cost, float weight, float bound, std::uint32_t* found) {
    return places_where(
        n, [&](std::size_t p) { return extend(cost, acoustic[columns[p]], weight) <= bound; }, found);
}

}  // namespace arcbeam::twin
