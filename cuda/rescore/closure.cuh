// The closure of a search with histories: one level of epsilon depth. The rule is the twin's,
// cpu_reference/decode/rescoring_closure.hpp.
//
// in   hypotheses [0, step.states_before) as of the last barrier: the lists of states of this depth are complete
// out  these lists are cut; the candidates that their epsilon arcs lead to are noted, and boosted where words have
// no
//      other addend
//      In shared memory a candidate without a word is offered to its key at once. Candidates with a word are listed
//      to be looked up, and offered in a step of their own. In device memory that holds for all candidates,
//      because ordering writes takes long there. A barrier must follow.
#pragma once

#include "rescore/ranking.cuh"
#include "rescore/rescore.cuh"

namespace arcbeam {

// What following a level needs in addition to the hypothesis.
struct Level {
    Step step;
    float bound;
    std::uint32_t first_log;
    std::uint32_t num_long;  // see rank_lists(); 0: no list of this depth has been ranked
};

// Writes a candidate whose key other threads may read before the next barrier. racecheck does not model that
// claiming the key releases it, but accepts that atomics and loads meet.
template <class Team, class Work>
ARCBEAM_DEVICE void publish(std::uint32_t at, const Candidate& candidate, const History& history,
                            const Work& work) {
    auto* const into = work.candidate().at(at);
    simt::store(&into->packed, candidate.packed);
    simt::store(&into->source, candidate.source);
    simt::atomic_exchange<Team::kScope>(&into->place, candidate.place);
    auto* const beside = work.extension().at(at);
    simt::store(&beside->word, kNoWord);
    simt::atomic_exchange<Team::kScope>(&beside->history.large, history.large);
    simt::atomic_exchange<Team::kScope>(&beside->history.small, history.small);
}

// Offers a candidate that this thread has just published, and enters the key if it is new.
template <class Team, class Work, class Params>
ARCBEAM_DEVICE void reach(const Params& params, std::uint32_t i, const Candidate& candidate, const History& history,
                          const Step& step, const Work& work, Control& control, RescoringControl& words) {
    Probe probe{key_home(candidate.place, history, work.table_size), 0U, false};
    probe.found = key_at<Team, true>(probe.place, work);
    claim<Team, true>(probe, i, step, work, control);
    const Offered offered =
        offer_key<Team, true>(probe, i, candidate.packed, candidate.place, history, step, work, control);
    simt::store(&work.extension().at(i)->place, offered.place);
    const auto cost = static_cast<std::uint32_t>(candidate.packed >> 32U);
    if (cost < simt::load_relaxed<Team::kScope>(&words.best_survivor)) {
        simt::atomic_min<Team::kScope>(&words.best_survivor, cost);
    }
    if (!offered.added) {
        return;
    }
    const std::uint32_t index = step.states_before + simt::atomic_add<Team::kScope>(&control.added[step.slot], 1U);
    if (index >= work.hypotheses) {
        return;
    }
    const StateRow row = load_row(params.search.graph, candidate.place);
    const Entered entered[1] = {{true, index, candidate.place, offered.place, row}};
    enter_hypotheses<Team>(params, entered, step, work, control, words);
    if (row.epsilon.depth != kNoIndex) {
        const std::uint32_t at =
            step.epsilons_before + simt::atomic_add<Team::kScope>(&control.epsilons[step.slot], 1U);
        work.epsilons()[at] = leaving_state(params, index, row.epsilon);
        simt::atomic_max<Team::kScope>(&control.levels[step.slot], row.epsilon.depth + 1U);
        simt::atomic_or<Team::kScope>(&words.has_level, level_bit(row.epsilon.depth));
    }
}

// The epsilon arcs of a state's row are [arc, end). Returns whether there are more after them, and where: those
// that enter an open slot, see new_words.cuh.
template <class Work>
ARCBEAM_DEVICE bool more_epsilons(const DeviceGraphView&, std::uint32_t, const Work&, std::uint32_t&,
                                  std::uint32_t&) {
    return false;
}

// `does`: what is known of the arcs, see kDoes.
template <class Team, class Work, class Params>
ARCBEAM_DEVICE void follow_hypothesis(const Params& params, const RescoringLane& lane, std::uint32_t index,
                                      std::uint32_t does, ArcTarget target, const Level& level, const Work& work,
                                      Control& control, RescoringControl& words) {
    const StateArcs arcs = work.arcs()[index];
    const std::uint32_t key = work.place()[index];
    const float cost = packed_cost(work.key_best()[key]);
    const History before = work.history(key);
    std::uint32_t end = arcs.first_emitting;
    for (std::uint32_t arc = arcs.first_arc;
         arc < end || ((does & kEnters) != 0U && more_epsilons(params.search.graph, key, work, arc, end)); ++arc) {
        if (arc != arcs.first_arc) {
            target = simt::load_readonly(params.search.graph.targets + arc);
        }
        float reached = extend_epsilon(cost, target.weight);
        if (!admits(level.bound, reached)) {
            continue;
        }
        const bool writes = Params::kBoostsAlone ? (does & kWrites) != 0U : params.epsilon_words != 0U;
        std::uint32_t word = writes ? simt::load_readonly(params.words + arc) : kNoWord;
        History history = before;
        if constexpr (Params::kBoostsAlone) {
            if (word != kNoWord) {
                const BoostStep step = listed_step(listed_of(lane), boost_part(params, before), word);
                reached = rescore_cost(reached, step.cost);
                history = with_boost_part(params, before, step.next_state);
                word = kNoWord;
                if (!admits(level.bound, reached)) {
                    continue;
                }
            }
        }
        const std::uint32_t at = simt::atomic_add<Team::kScope>(&control.num_candidates, 1U);
        if (at >= work.candidates) {
            continue;
        }
        const Candidate candidate{pack(reached, arc), target.next_state, level.first_log + index};
        if (kIsShared<Work> && word == kNoWord) {
            publish<Team>(at, candidate, history, work);
            reach<Team>(params, at, candidate, history, level.step, work, control, words);
            continue;
        }
        work.candidate()[at] = candidate;
        work.extension()[at] = Extension{history, kNoIndex, word};
        if (word != kNoWord) {
            work.with_words()[simt::atomic_add<Team::kScope>(&words.num_with_words[level.step.slot], 1U)] = at;
        }
    }
}

template <class Team, class Work, class Params>
ARCBEAM_DEVICE void follow_level(const Params& params, const RescoringLane& lane, std::uint32_t depth,
                                 const Level& level, const Work& work, Control& given,
                                 RescoringControl& given_words) {
    Control& control = words_beside(work, given);
    RescoringControl& words = words_beside(work, given_words);
    const bool is_long = Params::kLimits && level.num_long != 0U;
    for (std::uint32_t i = Team::rank(); i < level.step.epsilons_before; i += Team::size()) {
        Leaving from = work.epsilons()[i];
        std::uint32_t does = kDoes;
        if constexpr (Params::kBoostsAlone) {
            does = from.index & kDoes;
            from.index &= ~kDoes;
        }
        if (from.depth != depth ||
            (is_long && simt::load_relaxed<Team::kScope>(work.kept().at(from.index)) != kUndecided)) {
            continue;
        }
        if constexpr (Params::kLimits) {
            work.kept()[from.index] = kStays;
        }
        follow_hypothesis<Team>(params, lane, from.index, does, ArcTarget{from.next_state, from.weight}, level,
                                work, control, words);
    }
    if constexpr (Params::kLimits) {
        cut_lists<Team>(params, depth, level.num_long, work, [&](std::uint32_t index, bool stays) {
            if (index != kNoIndex) {
                simt::atomic_exchange<Team::kScope>(work.kept().at(index), stays ? kStays : kNoIndex);
            }
            if (stays) {
                const std::uint32_t first = simt::load(&work.arcs().at(index)->first_arc);
                const ArcTarget target = simt::load_readonly(params.search.graph.targets + first);
                follow_hypothesis<Team>(params, lane, index, kDoes, target, level, work, control, words);
            }
        });
    }
}

// The next step, after a barrier at which all threads have left this one. The slot after it is reset.
template <class Team>
ARCBEAM_DEVICE Step next_step(const Step& step, Control& control, RescoringControl& words) {
    const Step next{step.next_slot(), step.states_before + simt::load(&control.added[step.slot]),
                    step.epsilons_before + simt::load(&control.epsilons[step.slot])};
    if (Team::rank() == 0U) {
        const std::uint32_t slot = next.next_slot();
        simt::store(&control.added[slot], 0U);
        simt::store(&control.epsilons[slot], 0U);
        simt::store(&control.levels[slot], 0U);
        simt::store(&words.num_with_words[slot], 0U);
        simt::store(&words.num_distinct[slot], 0U);
    }
    return next;
}

struct Closed {
    FrameEnd end;
    std::uint32_t num_hypotheses;
};

// Closes the frontier level by level. A barrier was passed.
template <class Team, class Params>
ARCBEAM_DEVICE Closed close_with_histories(const Params& params, RescoringLane& lane, std::uint32_t num_candidates,
                                           float bound, const RescoringWorkspace& work) {
    Control& control = *lane.control;
    RescoringControl& words = *lane.words;
    const bool at_once =
        where_it_is<Team>(work, true, [](const auto& arrays) { return kIsShared<decltype(arrays)>; });
    std::uint32_t levels = simt::load(&control.levels[0]);
    Step step = next_step<Team>(Step{0U, 0U, 0U}, control, words);
    for (std::uint32_t depth = 0U; depth < levels && step.states_before <= work.hypotheses; ++depth) {
        if ((simt::load_relaxed<Team::kScope>(&words.has_level) & level_bit(depth)) == 0U) {
            continue;
        }
        Level level{step, bound, lane.state.log_size, 0U};
        if (Params::kLimits && (simt::load_relaxed<Team::kScope>(&words.long_levels) & level_bit(depth)) != 0U) {
            level.num_long = rank_lists<Team>(depth, step.states_before, work, words);
            if (level.num_long == kNoIndex) {
                return {FrameEnd::no_room, 0U};
            }
        }
        where_it_is<Team>(work, true, [&](const auto& arrays) {
            follow_level<Team>(params, lane, depth, level, arrays, control, words);
        });
        Team::barrier();
        std::uint32_t deeper = simt::load(&control.levels[step.slot]);
        levels = deeper > levels ? deeper : levels;
        const std::uint32_t slot = step.slot;
        step = next_step<Team>(step, control, words);
        const std::uint32_t num_with_words = Params::kDeviates ? simt::load(&words.num_with_words[slot]) : 0U;
        if (at_once && num_with_words == 0U) {
            continue;
        }
        const std::uint32_t last = simt::load(&control.num_candidates);
        if (last > work.candidates || step.states_before > work.hypotheses ||
            (Params::kDeviates && num_with_words > work.table_size - step.states_before)) {
            return {FrameEnd::no_room, 0U};
        }
        if constexpr (Params::kDeviates) {
            if (num_with_words != 0U && !look_up_and_rescore<Team>(params, lane, num_with_words, slot, work)) {
                return {FrameEnd::waits, 0U};
            }
        }
        recombine_histories<Team>(params, num_candidates, last, at_once, bound, step, work, control, words);
        num_candidates = last;
        Team::barrier();
        deeper = simt::load(&control.levels[step.slot]);
        levels = deeper > levels ? deeper : levels;
        step = next_step<Team>(step, control, words);
    }
    const bool fits =
        step.states_before <= work.hypotheses && simt::load(&control.num_candidates) <= work.candidates;
    return {fits ? FrameEnd::committed : FrameEnd::no_room, step.states_before};
}

}  // namespace arcbeam
