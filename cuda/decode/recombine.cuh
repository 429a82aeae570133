// Stage recombine: admission, and one winner for each state. The rule is the twin's,
// cpu_reference/decode/recombine.hpp.
//
// in   candidates[n], the bound
// out  table and frontier: every state with a finite candidate within the bound, its smallest pack(cost, arc);
//      candidate_place: where in the table its state is, kNoIndex where the candidate was not admitted;
//      control.added[step.slot]: states found; with those before, it exceeds the frontier's room if there was too
//      little. A barrier must follow.
#pragma once

#include "decode/team.cuh"
#include "decode/workspace.cuh"

namespace arcbeam {

ARCBEAM_DEVICE std::uint32_t home(std::uint32_t state, std::uint32_t table_size) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(state * 0x9e3779b1U) * table_size >> 32U);
}

// Takes the next place of the frontier and looks up the arcs of the state.
template <class Team>
ARCBEAM_DEVICE void add_state(const GraphView& graph, std::uint32_t state, std::uint32_t place, const Step& step,
                              const Workspace& work, Control& control) {
    const std::uint32_t index = step.states_before + simt::atomic_add<Team::kScope>(&control.added[step.slot], 1U);
    if (index >= work.state.size) {
        return;
    }
    const StateRecord record = simt::load_readonly(graph.states + state);
    const std::uint32_t arcs_end = simt::load_readonly(&graph.states[state + 1U].first_arc);
    work.table_index[place] = index;
    work.place[index] = place;
    work.state[index] = state;
    work.first_arc[index] = record.first_arc;
    work.first_emitting[index] = record.first_emitting;
    work.arcs_end[index] = arcs_end;
    work.smallest_weight[index] = record.smallest_weight;
    if (record.first_emitting != arcs_end) {
        simt::prefetch(graph.columns + record.first_emitting);
    }
    const bool has_epsilon = record.first_arc != record.first_emitting;
    work.depth[index] = has_epsilon ? record.depth : kNoIndex;
    if (has_epsilon) {
        simt::atomic_max<Team::kScope>(&control.levels[step.slot], record.depth + 1U);
    }
}

// Offers a candidate to its state; gives the state's place in the table, kNoIndex if there is no room for it.
template <class Team>
ARCBEAM_DEVICE std::uint32_t offer(const GraphView& graph, std::uint64_t candidate, std::uint32_t state,
                                   const Step& step, const Workspace& work, Control& control) {
    const std::uint32_t size = work.table_state.size;
    std::uint32_t place = home(state, size);
    for (std::uint32_t probes = 0U; probes < size; ++probes) {
        std::uint32_t found = simt::load_relaxed<Team::kScope>(work.table_state.at(place));
        bool added = false;
        if (found == kNoIndex) {
            if (step.states_before + simt::load_relaxed<Team::kScope>(&control.added[step.slot]) >=
                work.state.size) {
                break;
            }
            found = simt::atomic_cas<Team::kScope>(work.table_state.at(place), kNoIndex, state);
            added = found == kNoIndex;
        }
        if (added || found == state) {
            simt::atomic_min<Team::kScope>(work.table_best.at(place), candidate);
            if (added) {
                add_state<Team>(graph, state, place, step, work, control);
            }
            return place;
        }
        place = place + 1U == size ? 0U : place + 1U;
    }
    simt::atomic_max<Team::kScope>(&control.added[step.slot], work.state.size + 1U - step.states_before);
    return kNoIndex;
}

template <class Team>
ARCBEAM_DEVICE void recombine(const GraphView& graph, std::uint32_t num_candidates, float bound,
                              const Workspace& work, Control& control, Counts& counts) {
    const Step step{0U, 0U};
    for (std::uint32_t i = Team::rank(); i < num_candidates; i += Team::size()) {
        const std::uint64_t candidate = work.candidate[i];
        std::uint32_t place = kNoIndex;
        if (admits(bound, packed_cost(candidate))) {
            place = offer<Team>(graph, candidate, work.candidate_place[i], step, work, control);
            ++counts.admitted;
        }
        work.candidate_place[i] = place;
    }
}

}  // namespace arcbeam
