// Stage recombine: admission, and one winner for each state. The rule is the twin's,
// cpu_reference/decode/recombine.hpp.
//
// in   candidates[n], the bound
// out  table and frontier: every state with a finite candidate within the bound, and its smallest pack(cost, arc);
//      candidate_place: where in the table its state is, kNoIndex where the candidate was not admitted;
//      control.added[step.slot]: the number of states found; added to those before, it exceeds the room of the
//      frontier if there was too little; control.epsilons and control.levels: the states with epsilon arcs
//      A barrier must follow.
#pragma once

#include "decode/launch/team.cuh"
#include "decode/workspace.cuh"

namespace arcbeam {

ARCBEAM_DEVICE std::uint32_t home(std::uint32_t state, std::uint32_t table_size) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(state * 0x9e3779b1U) * table_size >> 32U);
}

// Enters a new state into the frontier, and prefetches what the frame and the next one will read of it.
ARCBEAM_DEVICE void enter(const DeviceGraphView& graph, std::uint32_t state, std::uint32_t place,
                          std::uint32_t index, const StateRow& row, const Workspace& work) {
    work.table_index[place] = index;
    work.reached[index] = Reached{place, state, kNoIndex, 0U};
    work.arcs[index] = row.arcs;
    if (row.arcs.first_emitting != row.arcs.arcs_end) {
        simt::prefetch(graph.labels + row.arcs.first_emitting);
    }
    if (row.epsilon.depth != kNoIndex) {
        simt::prefetch(graph.states + row.epsilon.next_state);
    }
}

ARCBEAM_DEVICE StateRow load_row(const DeviceGraphView& graph, std::uint32_t state) {
    const StateRow* const row = graph.states + state;
    return {simt::load_readonly(&row->arcs), simt::load_readonly(&row->epsilon)};
}

ARCBEAM_DEVICE Leaving leaving(std::uint32_t index, const StateEpsilon& epsilon) {
    return {index, epsilon.depth, epsilon.next_state, epsilon.weight};
}

struct Offered {
    std::uint32_t place;  // of the state in the table; kNoIndex if there is no room for it
    bool added;           // it was not there before
};

// Offers a candidate to its state.
template <class Team>
ARCBEAM_DEVICE Offered offer(std::uint64_t candidate, std::uint32_t state, const Step& step, const Workspace& work,
                             Control& control) {
    const std::uint32_t size = work.table_state.size;
    std::uint32_t place = home(state, size);
    for (std::uint32_t probes = 0U; probes < size; ++probes) {
        std::uint32_t found = simt::load_relaxed<Team::kScope>(work.table_state.at(place));
        bool added = false;
        if (found == kNoIndex) {
            if (step.states_before + simt::load_relaxed<Team::kScope>(&control.added[step.slot]) >=
                work.reached.size) {
                break;
            }
            found = simt::atomic_cas<Team::kScope>(work.table_state.at(place), kNoIndex, state);
            added = found == kNoIndex;
        }
        if (added || found == state) {
            simt::atomic_min<Team::kScope>(work.table_best.at(place), candidate);
            return {place, added};
        }
        place = place + 1U == size ? 0U : place + 1U;
    }
    simt::atomic_max<Team::kScope>(&control.added[step.slot], work.reached.size + 1U - step.states_before);
    return {kNoIndex, false};
}

// Gives a place to each thread of a warp that needs one. One thread adds their number to the counter.
template <class Team>
ARCBEAM_DEVICE std::uint32_t take_place(std::uint32_t* count, bool needed) {
    const std::uint32_t lanes = simt::ballot(simt::kAllThreads, needed);
    std::uint32_t at = 0U;
    if (lanes != 0U && simt::is_leader(lanes)) {
        at = simt::atomic_add<Team::kScope>(count, simt::popcount(lanes));
    }
    at = simt::shuffle(simt::kAllThreads, at, lanes == 0U ? 0U : simt::lowest_bit(lanes));
    return at + simt::place_in(lanes);
}

// Each thread takes two candidates at a time, because a new state needs a load, and both loads then wait together.
template <class Team>
ARCBEAM_DEVICE void recombine(const DeviceGraphView& graph, std::uint32_t num_candidates, float bound,
                              const Workspace& work, Control& control, Counts& counts) {
    constexpr std::uint32_t kEach = 2U;
    const Step step{0U, 0U, 0U};
    const std::uint32_t of_warps = (num_candidates + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t first = Team::rank(); first < of_warps; first += kEach * Team::size()) {
        std::uint32_t state[kEach];
        std::uint32_t index[kEach];
        Offered offered[kEach];
        StateRow row[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            offered[k] = {kNoIndex, false};
            state[k] = 0U;
            if (i < num_candidates) {
                const Candidate candidate = work.candidate[i];
                state[k] = candidate.place;
                if (admits(bound, packed_cost(candidate.packed))) {
                    offered[k] = offer<Team>(candidate.packed, candidate.place, step, work, control);
                    ++counts.admitted;
                }
                simt::store(&work.candidate.at(i)->place, offered[k].place);
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            index[k] = take_place<Team>(&control.added[0], offered[k].added);
            row[k] = StateRow{};
            row[k].epsilon.depth = kNoIndex;
            offered[k].added = offered[k].added && index[k] < work.reached.size;
            if (offered[k].added) {
                row[k] = load_row(graph, state[k]);
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (offered[k].added) {
                enter(graph, state[k], offered[k].place, index[k], row[k], work);
            }
            const bool has_epsilon = row[k].epsilon.depth != kNoIndex;
            const std::uint32_t at = take_place<Team>(&control.epsilons[0], has_epsilon);
            const std::uint32_t levels =
                simt::reduce_max(simt::kAllThreads, has_epsilon ? row[k].epsilon.depth + 1U : 0U);
            if (has_epsilon) {
                work.epsilons[at] = leaving(index[k], row[k].epsilon);
            }
            if (levels != 0U && simt::warp_thread() == 0U) {
                simt::atomic_max<Team::kScope>(&control.levels[0], levels);
            }
        }
    }
}

}  // namespace arcbeam
