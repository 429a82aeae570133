// The closure of a search with histories: one level of epsilon depth. The rule is the twin's,
// cpu_reference/decode/rescoring_closure.hpp.
//
// in   hypotheses [0, num_epsilons) with epsilon arcs as of the last barrier: the lists of states of this depth are
//      complete, and are cut before their arcs are followed
// out  candidates, noted from num_candidates on; those with words are listed to be looked up. A barrier must
// follow.
#pragma once

#include "rescore/rescore.cuh"

namespace arcbeam {

ARCBEAM_DEVICE void follow_level(const RescoringParams& params, std::uint32_t level, std::uint32_t num_epsilons,
                                 float bound, std::uint32_t slot, const RescoringWorkspace& work,
                                 RescoringLane& lane) {
    Control& control = *lane.control;
    const float lookup_bound = beam_bound(bound, params.lookup_margin);
    for (std::uint32_t i = simt::thread_rank(); i < num_epsilons; i += simt::block_size()) {
        const Leaving from = work.epsilons()[i];
        if (from.depth != level) {
            continue;
        }
        const bool stays = is_among_best(params, from.index, work);
        work.kept()[from.index] = stays ? kStays : kNoIndex;
        if (!stays) {
            continue;
        }
        const StateArcs arcs = work.arcs()[from.index];
        const std::uint32_t key = work.place()[from.index];
        const float cost = packed_cost(work.key_best()[key]);
        const History history = work.history(key);
        ArcTarget target{from.next_state, from.weight};
        for (std::uint32_t arc = arcs.first_arc; arc < arcs.first_emitting; ++arc) {
            if (arc != arcs.first_arc) {
                target = simt::load_readonly(params.search.graph.targets + arc);
            }
            const float reached = extend_epsilon(cost, target.weight);
            if (!admits(lookup_bound, reached)) {
                continue;
            }
            const std::uint32_t word =
                params.epsilon_words != 0U ? simt::load_readonly(params.words + arc) : kNoWord;
            if (word == kNoWord && !admits(bound, reached)) {
                continue;
            }
            const std::uint32_t at = simt::atomic_add<Scope::block>(&control.num_candidates, 1U);
            if (at >= work.candidate().size) {
                continue;
            }
            work.candidate()[at] =
                Candidate{pack(reached, arc), target.next_state, lane.state.log_size + from.index};
            work.extension()[at] = Extension{history, kNoIndex, word};
            if (word != kNoWord) {
                work.wanted()[simt::atomic_add<Scope::block>(&lane.words->num_wanted[slot], 1U)] = at;
            }
        }
    }
}

// Closes the frontier level by level. A barrier was passed.
ARCBEAM_DEVICE FrameEnd close_with_histories(const RescoringParams& params, RescoringLane& lane,
                                             std::uint32_t num_candidates, float bound,
                                             const RescoringWorkspace& work) {
    RescoringControl& control = *lane.words;
    std::uint32_t slot = 1U;
    for (std::uint32_t level = 0U; level < simt::load(&control.levels); ++level) {
        if (simt::load(&control.overflow) != 0U) {
            return FrameEnd::no_room;
        }
        if ((simt::load(&control.has_level) & level_bit(level)) == 0U) {
            continue;
        }
        const std::uint32_t num_epsilons = simt::load(&control.num_epsilons);
        if ((simt::load(&control.long_levels) & level_bit(level)) != 0U) {
            const auto of_level = [&work, level](std::uint32_t i) {
                const Leaving from = work.epsilons()[i];
                return from.depth == level ? from.index : kNoIndex;
            };
            rank_lists(params.hypotheses_per_state, num_epsilons, of_level, work, control);
        }
        follow_level(params, level, num_epsilons, bound, slot, work, lane);
        simt::block_barrier();
        const std::uint32_t last = simt::load(&lane.control->num_candidates);
        if (last > work.candidate().size) {
            return FrameEnd::no_room;
        }
        const std::uint32_t num_wanted = simt::load(&control.num_wanted[slot]);
        if (num_wanted > work.asked().size) {
            return FrameEnd::no_room;
        }
        if (num_wanted != 0U && !look_up_and_rescore(params, lane, num_wanted, slot, work)) {
            return kFrameUnanswered;
        }
        slot = 1U - slot;
        if (simt::thread_rank() == 0U) {  // that of the step before last: all have read it
            simt::store(&control.num_wanted[slot], 0U);
            simt::store(&control.num_distinct[slot], 0U);
        }
        recombine_histories(params, num_candidates, last, bound, work, control);
        num_candidates = last;
        simt::block_barrier();
    }
    return simt::load(&control.overflow) == 0U ? FrameEnd::committed : FrameEnd::no_room;
}

}  // namespace arcbeam
