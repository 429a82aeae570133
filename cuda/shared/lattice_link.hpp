// A link of a lattice (law 8 of docs/design/rules.md), as the searches of both engines capture it.
#pragma once

#include <cstdint>

namespace arcbeam::lattice {

// A way from one token to another. `slack` is its cost above that of the target's winner, 0 for the winner itself.
// Tokens are named by their entries in the token log, and in a finished lattice by their numbers.
struct alignas(16) Link {
    std::uint32_t source;
    std::uint32_t target;
    std::uint32_t arc;  // of the graph
    float slack;
};

}  // namespace arcbeam::lattice
