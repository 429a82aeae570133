// Stage closure: one level of epsilon depth. The rule is the twin's, cpu_reference/decode/closure.hpp.
//
// in   frontier[step.states_before] as of the last barrier: its states of depth `level` are complete
// out  the states that their epsilon arcs reach within the bound, offered and noted as candidates of their own
//      A barrier must follow. A level may find states of larger depth: control.levels[step.slot].
#pragma once

#include "decode/recombine.cuh"

namespace arcbeam {

// Enters a state that the closure was the first to find.
template <class Team>
ARCBEAM_DEVICE void add_state(const DeviceGraphView& graph, std::uint32_t state, std::uint32_t place,
                              const Step& step, const Workspace& work, Control& control) {
    const std::uint32_t index = step.states_before + simt::atomic_add<Team::kScope>(&control.added[step.slot], 1U);
    if (index >= work.reached.size) {
        return;
    }
    const StateRow row = load_row(graph, state);
    enter(graph, state, place, index, row, work);
    if (row.epsilon.depth != kNoIndex) {
        const std::uint32_t at =
            step.epsilons_before + simt::atomic_add<Team::kScope>(&control.epsilons[step.slot], 1U);
        work.epsilons[at] = leaving(index, row.epsilon);
        simt::atomic_max<Team::kScope>(&control.levels[step.slot], row.epsilon.depth + 1U);
    }
}

template <class Team>
ARCBEAM_DEVICE void close_level(const DeviceGraphView& graph, std::uint32_t level, const Step& step, float bound,
                                std::uint32_t first_log, const Workspace& work, Control& control) {
    if (Team::rank() == 0U) {
        simt::store(&control.added[step.next_slot()], 0U);
        simt::store(&control.epsilons[step.next_slot()], 0U);
        simt::store(&control.levels[step.next_slot()], 0U);
    }
    for (std::uint32_t i = Team::rank(); i < step.epsilons_before; i += Team::size()) {
        const Leaving from = work.epsilons[i];
        if (from.depth != level) {
            continue;
        }
        const StateArcs arcs = work.arcs[from.index];
        const float cost = packed_cost(work.table_best[simt::load(&work.reached.at(from.index)->place)]);
        ArcTarget target{from.next_state, from.weight};
        for (std::uint32_t arc = arcs.first_arc; arc < arcs.first_emitting; ++arc) {
            if (arc != arcs.first_arc) {
                target = simt::load_readonly(graph.targets + arc);
            }
            const float reached = extend_epsilon(cost, target.weight);
            if (!admits(bound, reached)) {
                continue;
            }
            const std::uint64_t candidate = pack(reached, arc);
            const Offered offered = offer<Team>(candidate, target.next_state, step, work, control);
            if (offered.added) {
                add_state<Team>(graph, target.next_state, offered.place, step, work, control);
            }
            const std::uint32_t at = simt::atomic_add<Team::kScope>(&control.num_candidates, 1U);
            if (at < work.candidate.size) {
                work.candidate[at] = Candidate{candidate, offered.place, first_log + from.index};
            }
        }
    }
}

}  // namespace arcbeam
