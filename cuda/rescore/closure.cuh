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

// Notes what the epsilon arcs of a hypothesis reach.
template <class Team>
ARCBEAM_DEVICE void follow_hypothesis(const RescoringParams& params, std::uint32_t index, ArcTarget target,
                                      float bound, std::uint32_t first_log, const RescoringWorkspace& work,
                                      Control& control, std::uint32_t& num_wanted) {
    const float lookup_bound = beam_bound(bound, params.lookup_margin);
    const StateArcs arcs = work.arcs()[index];
    const std::uint32_t key = work.place()[index];
    const float cost = packed_cost(work.key_best()[key]);
    const History history = work.history(key);
    for (std::uint32_t arc = arcs.first_arc; arc < arcs.first_emitting; ++arc) {
        if (arc != arcs.first_arc) {
            target = simt::load_readonly(params.search.graph.targets + arc);
        }
        const float reached = extend_epsilon(cost, target.weight);
        if (!admits(lookup_bound, reached)) {
            continue;
        }
        const std::uint32_t word = params.epsilon_words != 0U ? simt::load_readonly(params.words + arc) : kNoWord;
        if (word == kNoWord && !admits(bound, reached)) {
            continue;
        }
        const std::uint32_t at = simt::atomic_add<Team::kScope>(&control.num_candidates, 1U);
        if (at >= work.candidates) {
            continue;
        }
        work.candidate()[at] = Candidate{pack(reached, arc), target.next_state, first_log + index};
        work.extension()[at] = Extension{history, kNoIndex, word};
        if (word != kNoWord) {
            work.wanted()[simt::atomic_add<Team::kScope>(&num_wanted, 1U)] = at;
        }
    }
}

template <class Team>
ARCBEAM_DEVICE_NOINLINE void follow_level(const RescoringParams& params, std::uint32_t level, bool is_long,
                                          float bound, std::uint32_t slot, std::uint32_t first_log,
                                          const RescoringWorkspace work, Control& control,
                                          RescoringControl& words) {
    const std::uint32_t num_epsilons = simt::load(&words.num_epsilons);
    std::uint32_t& num_wanted = words.num_wanted[slot];
    for (std::uint32_t i = Team::rank(); i < num_epsilons; i += Team::size()) {
        const Leaving from = work.epsilons()[i];
        if (from.depth != level ||
            (is_long && simt::load_relaxed<Team::kScope>(work.kept().at(from.index)) != kUndecided)) {
            continue;
        }
        work.kept()[from.index] = kStays;
        follow_hypothesis<Team>(params, from.index, ArcTarget{from.next_state, from.weight}, bound, first_log, work,
                                control, num_wanted);
    }
    if (is_long) {
        cut_lists<Team>(params, level, work, words, [&](std::uint32_t index, bool stays) {
            if (index != kNoIndex) {
                simt::store_relaxed<Team::kScope>(work.kept().at(index), stays ? kStays : kNoIndex);
            }
            if (stays) {
                const std::uint32_t first = simt::load(&work.arcs().at(index)->first_arc);
                const ArcTarget target = simt::load_readonly(params.search.graph.targets + first);
                follow_hypothesis<Team>(params, index, target, bound, first_log, work, control, num_wanted);
            }
        });
    }
}

// Closes the frontier level by level. A barrier was passed.
template <class Team>
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
        const std::uint32_t num_hypotheses = simt::load(&control.num_hypotheses);
        const bool is_long = (simt::load(&control.long_levels) & level_bit(level)) != 0U;
        if (is_long && !rank_lists<Team>(level, num_hypotheses, work, control)) {
            return FrameEnd::no_room;
        }
        follow_level<Team>(params, level, is_long, bound, slot, lane.state.log_size, work, *lane.control, control);
        Team::barrier();
        const std::uint32_t last = simt::load(&lane.control->num_candidates);
        if (last > work.candidates) {
            return FrameEnd::no_room;
        }
        const std::uint32_t num_wanted = simt::load(&control.num_wanted[slot]);
        if (num_wanted > work.table_size - num_hypotheses) {
            return FrameEnd::no_room;
        }
        if (num_wanted != 0U && !look_up_and_rescore<Team>(params, lane, num_wanted, slot, work)) {
            return kFrameUnanswered;
        }
        slot = 1U - slot;
        if (Team::rank() == 0U) {  // that of the step before last: all have read it
            simt::store(&control.num_wanted[slot], 0U);
            simt::store(&control.num_distinct[slot], 0U);
        }
        recombine_histories<Team>(params, num_candidates, last, bound, work, control);
        num_candidates = last;
        Team::barrier();
    }
    return simt::load(&control.overflow) == 0U ? FrameEnd::committed : FrameEnd::no_room;
}

}  // namespace arcbeam
