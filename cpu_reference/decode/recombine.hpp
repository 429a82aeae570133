// Stage recombine: admission, and one winner for each state.
//
// in   candidates, the bound
// out  frontier: for every state with a finite candidate within the bound, the smallest by (cost, arc id);
//      every such candidate with its slot also to `links` (lattice.hpp)
#pragma once

#include "decode/slot_table.hpp"
#include "decode/tokens.hpp"

namespace arcbeam::twin {

using Frontier = Buffer<Candidate>;

using StateTable = SlotTable<StateKey>;  // the slot of each state in the frontier

template <typename Links = NoLinks>
void recombine(const Buffer<Candidate>& candidates, float bound, StateTable& table, Frontier& frontier, Work& work,
               Links&& links = Links{}) {
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (i + kAhead < candidates.size()) {
            table.look_ahead({candidates[i + kAhead].state});
        }
        const Candidate& candidate = candidates[i];
        if (!admits(bound, candidate.cost)) {
            continue;
        }
        ++work.admitted;
        bool added;
        const std::uint32_t slot = table.find_or_add({candidate.state}, added);
        links.add(candidate, slot);
        if (added) {
            frontier.add(candidate);
        } else if (wins(candidate.cost, candidate.arc, frontier[slot])) {
            frontier[slot] = candidate;
        }
    }
}

}  // namespace arcbeam::twin
