// Stage closure: one level of epsilon depth. The rule is the twin's, cpu_reference/decode/closure.hpp.
//
// in   frontier[step.states_before] as of the last barrier: its states of depth `level` are complete
// out  the states that their epsilon arcs reach within the bound, offered and noted as candidates of their own
//      A barrier must follow. A level may find deeper ones: control.levels[step.slot].
#pragma once

#include "decode/recombine.cuh"

namespace arcbeam {

template <class Team>
ARCBEAM_DEVICE void close_level(const GraphView& graph, std::uint32_t level, const Step& step, float bound,
                                std::uint32_t first_log, const Workspace& work, Control& control) {
    if (Team::rank() == 0U) {
        simt::store(&control.added[step.next_slot()], 0U);
        simt::store(&control.levels[step.next_slot()], 0U);
    }
    for (std::uint32_t index = Team::rank(); index < step.states_before; index += Team::size()) {
        if (work.depth[index] != level) {
            continue;
        }
        const std::uint32_t place = work.place[index];
        const float cost = packed_cost(work.table_best[place]);
        const std::uint32_t end = work.first_emitting[index];
        for (std::uint32_t arc = work.first_arc[index]; arc < end; ++arc) {
            const ArcTarget target = simt::load_readonly(graph.targets + arc);
            const float reached = extend_epsilon(cost, target.weight);
            if (!admits(bound, reached)) {
                continue;
            }
            const std::uint64_t candidate = pack(reached, arc);
            const std::uint32_t reached_place =
                offer<Team>(graph, candidate, target.next_state, step, work, control);
            const std::uint32_t at = simt::atomic_add<Team::kScope>(&control.num_candidates, 1U);
            if (at < work.candidate.size) {
                work.candidate[at] = candidate;
                work.candidate_place[at] = reached_place;
                work.candidate_source[at] = first_log + index;
            }
        }
    }
}

}  // namespace arcbeam
