// The frontier of a search with histories: one winner for each (graph state, history). The rule is the twin's,
// cpu_reference/decode/hypotheses.hpp; ranking.cuh cuts the states that have too many.
//
// in   candidates; the bound; the step that counts what is found
// out  the tables: each candidate within the bound is offered to its key, and new keys enter as hypotheses
#pragma once

#include "rescore/tables.cuh"

namespace arcbeam {

// Reports that there is too little room for the step's hypotheses.
template <class Team, class Work>
ARCBEAM_DEVICE void overflow(const Step& step, const Work& work, Control& control) {
    simt::atomic_max<Team::kScope>(&control.added[step.slot], work.hypotheses + 1U - step.states_before);
}

// The place where a candidate's key is searched for, and what the place holds.
struct Probe {
    std::uint32_t place;
    std::uint32_t found;  // kNoIndex: the place was free, and still is
    bool added;           // this thread has added it
};

template <class Team, bool fresh, class Work>
ARCBEAM_DEVICE std::uint32_t key_at(std::uint32_t place, const Work& work) {
    return fresh ? simt::load_acquire<Team::kScope>(work.key_owner().at(place))
                 : simt::load_relaxed<Team::kScope>(work.key_owner().at(place));
}

// Claims a free place for candidate i, if there is room for another hypothesis.
template <class Team, bool fresh, class Work>
ARCBEAM_DEVICE void claim(Probe& probe, std::uint32_t i, const Step& step, const Work& work, Control& control) {
    constexpr simt::Order kOrder = fresh ? simt::Order::acquire_release : simt::Order::relaxed;
    if (probe.found == kNoIndex &&
        step.states_before + simt::load_relaxed<Team::kScope>(&control.added[step.slot]) < work.hypotheses) {
        probe.found = simt::atomic_cas<Team::kScope, kOrder>(work.key_owner().at(probe.place), kNoIndex, i);
        probe.added = probe.found == kNoIndex;
    }
}

// Offers candidate i to its key, starting at a probe. `fresh`: candidates of this step are written in this step,
// each before it is offered.
template <class Team, bool fresh, class Work>
ARCBEAM_DEVICE Offered offer_key(Probe probe, std::uint32_t i, std::uint64_t packed, std::uint32_t state,
                                 const History& history, const Step& step, const Work& work, Control& control) {
    const std::uint32_t size = work.table_size;
    for (std::uint32_t probes = 0U; probes < size && (probe.added || probe.found != kNoIndex); ++probes) {
        if (probe.added || (simt::load(&work.candidate().at(probe.found)->place) == state &&
                            simt::load(&work.extension().at(probe.found)->history) == history)) {
            simt::atomic_min<Team::kScope>(work.key_best().at(probe.place), packed);
            return {probe.place, probe.added};
        }
        probe.place = probe.place + 1U == size ? 0U : probe.place + 1U;
        probe.found = key_at<Team, fresh>(probe.place, work);
        claim<Team, fresh>(probe, i, step, work, control);
    }
    overflow<Team>(step, work, control);
    return {kNoIndex, false};
}

// Finds or claims the place of a state in the list table, which has room for every state.
template <class Team, class Work>
ARCBEAM_DEVICE std::uint32_t list_of(std::uint32_t state, std::uint32_t place, std::uint32_t found,
                                     const Work& work) {
    const std::uint32_t size = work.table_size;
    for (std::uint32_t probes = 0U; probes < size; ++probes) {
        if (found == kNoIndex) {
            found = simt::atomic_cas<Team::kScope>(work.list_state().at(place), kNoIndex, state);
        }
        if (found == kNoIndex || found == state) {
            break;
        }
        place = place + 1U == size ? 0U : place + 1U;
        found = simt::load_relaxed<Team::kScope>(work.list_state().at(place));
    }
    return place;
}

// Lists a state that has more than n hypotheses. False if there is no room for it.
template <class Team, class Work>
ARCBEAM_DEVICE bool list_long(std::uint32_t list, std::uint32_t depth, const Work& work, RescoringControl& words) {
    const std::uint32_t at = simt::atomic_add<Team::kScope>(&words.num_long, 1U) + 1U;
    if (simt::load_relaxed<Team::kScope>(&words.num_ranked) + at > work.most_ranked) {
        return false;
    }
    work.ranking()[work.most_ranked - at] = static_cast<std::uint64_t>(depth) << 32U | list;
    if (depth != kNoIndex) {
        simt::atomic_or<Team::kScope>(&words.long_levels, level_bit(depth));
    } else {
        simt::store_relaxed<Team::kScope>(&words.long_ends, 1U);
    }
    return true;
}

// A hypothesis that is new, and what is known of its state.
struct Entered {
    bool is_new;
    std::uint32_t index;
    std::uint32_t state;
    std::uint32_t key;
    StateRow row;
};

// What the epsilon arcs of a state do in addition to leading on. In a search that boosts without models,
// Leaving::index has these bits, so that no arc is read for what it does not do.
constexpr std::uint32_t kWrites = 0x40000000U;  // some of them have words
constexpr std::uint32_t kEnters = 0x80000000U;  // after them there are arcs into the open slot
constexpr std::uint32_t kDoes = kWrites | kEnters;

ARCBEAM_DEVICE bool enters_slot(const DeviceGraphView&, const StateEpsilon&) { return false; }

template <class Params>
ARCBEAM_DEVICE Leaving leaving_state(const Params& params, std::uint32_t index, const StateEpsilon& epsilon) {
    if constexpr (Params::kBoostsAlone) {
        const std::uint32_t writes = (epsilon.entrance & kWritesWords) != 0U ? kWrites : 0U;
        index |= writes | (enters_slot(params.search.graph, epsilon) ? kEnters : 0U);
    }
    return leaving(index, epsilon);
}

// Enters new hypotheses, and prefetches what the frame and the next one will read of their states. Each step is
// done for all of them before the next step begins, because the tables may be in device memory.
template <class Team, std::uint32_t each, class Work, class Params>
ARCBEAM_DEVICE void enter_hypotheses(const Params& params, const Entered (&entered)[each], const Step& step,
                                     const Work& work, Control& control, RescoringControl& words) {
    const std::uint32_t n = Params::kLimits ? params.hypotheses_per_state : 0U;
    std::uint32_t list[each];
    std::uint32_t found[each];
    for (std::uint32_t k = 0U; k < each; ++k) {
        list[k] = n == 0U ? kNoIndex : home(entered[k].state, work.table_size);
        found[k] = kNoIndex;
        if (entered[k].is_new && n != 0U) {
            found[k] = simt::load_relaxed<Team::kScope>(work.list_state().at(list[k]));
        }
    }
    for (std::uint32_t k = 0U; k < each; ++k) {
        if (entered[k].is_new && n != 0U) {
            list[k] = list_of<Team>(entered[k].state, list[k], found[k], work);
        }
    }
    std::uint32_t members[each];
    for (std::uint32_t k = 0U; k < each; ++k) {
        members[k] = 0U;
        if (entered[k].is_new && n != 0U) {
            members[k] = simt::atomic_add<Team::kScope>(work.list_count().at(list[k]), 1U) + 2U;
        }
    }
    for (std::uint32_t k = 0U; k < each; ++k) {
        if (!entered[k].is_new) {
            continue;
        }
        const Entered& one = entered[k];
        if constexpr (Params::kLimits) {
            work.list()[one.index] = list[k];
        }
        work.key_index()[one.key] = one.index;
        work.place()[one.index] = one.key;
        work.source()[one.index] = kUnclaimed;
        work.arcs()[one.index] = one.row.arcs;
        if constexpr (Params::kLimits) {
            work.kept()[one.index] = kUndecided;
        }
        if (one.row.arcs.first_emitting != one.row.arcs.arcs_end) {
            simt::prefetch(params.search.graph.labels + one.row.arcs.first_emitting);
        }
        if (one.row.epsilon.depth != kNoIndex) {
            simt::prefetch(params.search.graph.states + one.row.epsilon.next_state);
            const bool writes =
                Params::kBoostsAlone ? (one.row.epsilon.entrance & kWritesWords) != 0U : params.epsilon_words != 0U;
            if (writes) {
                simt::prefetch(params.words + one.row.arcs.first_arc);
            }
        }
        if (n != 0U && members[k] == n + 1U && !list_long<Team>(list[k], one.row.epsilon.depth, work, words)) {
            overflow<Team>(step, work, control);
        }
    }
}

// Admits candidates [first, last), or only those of them that have words, with their keys and hypotheses; the best
// of them may be the best survivor. A barrier must follow. Returns how many this thread has admitted. A thread
// takes kEach candidates at a time, because a new state needs a load, and so the loads wait together.
template <class Team, std::uint32_t kEach, class Work, class Params>
ARCBEAM_DEVICE std::uint32_t recombine_some(const Params& params, std::uint32_t first, std::uint32_t last,
                                            bool only_words, float bound, const Step& step, const Work& work,
                                            Control& given, RescoringControl& given_words) {
    Control& control = words_beside(work, given);
    RescoringControl& words = words_beside(work, given_words);
    std::uint32_t admitted = 0U;
    std::uint32_t best = kNoCost;
    const std::uint32_t end = first + (last - first + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t begin = first + Team::rank(); begin < end; begin += kEach * Team::size()) {
        Candidate candidate[kEach];
        Extension extension[kEach];
        bool is_admitted[kEach];
        Probe probe[kEach];
        Entered entered[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = begin + k * Team::size();
            candidate[k] = Candidate{kNoPacked, 0U, 0U};
            extension[k] = Extension{{0U, 0U}, kNoIndex, kNoWord};
            if (i < last) {
                candidate[k] = work.candidate()[i];
                extension[k] = work.extension()[i];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            is_admitted[k] =
                !(only_words && extension[k].word == kNoWord) && admits(bound, packed_cost(candidate[k].packed));
            probe[k] = {key_home(candidate[k].place, extension[k].history, work.table_size), 0U, false};
            if (is_admitted[k]) {
                probe[k].found = key_at<Team, false>(probe[k].place, work);
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (is_admitted[k]) {
                claim<Team, false>(probe[k], begin + k * Team::size(), step, work, control);
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = begin + k * Team::size();
            Offered offered{kNoIndex, false};
            if (is_admitted[k]) {
                offered = offer_key<Team, false>(probe[k], i, candidate[k].packed, candidate[k].place,
                                                 extension[k].history, step, work, control);
                ++admitted;
                const auto key = static_cast<std::uint32_t>(candidate[k].packed >> 32U);
                best = key < best ? key : best;
            }
            if (i < last && !(only_words && extension[k].word == kNoWord)) {
                simt::store(&work.extension().at(i)->place, offered.place);
            }
            const std::uint32_t index =
                step.states_before + take_place<Team>(&control.added[step.slot], offered.added);
            entered[k] = {offered.added && index < work.hypotheses, index, candidate[k].place, offered.place, {}};
            entered[k].row.epsilon.depth = kNoIndex;
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (entered[k].is_new) {
                entered[k].row = load_row(params.search.graph, entered[k].state);
            }
        }
        enter_hypotheses<Team>(params, entered, step, work, control, words);
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const StateEpsilon& epsilon = entered[k].row.epsilon;
            const bool has_epsilon = epsilon.depth != kNoIndex;
            const std::uint32_t at =
                step.epsilons_before + take_place<Team>(&control.epsilons[step.slot], has_epsilon);
            const std::uint32_t levels = simt::reduce_max(simt::kAllThreads, has_epsilon ? epsilon.depth + 1U : 0U);
            const std::uint32_t bits =
                simt::reduce_or(simt::kAllThreads, has_epsilon ? level_bit(epsilon.depth) : 0U);
            if (has_epsilon) {
                work.epsilons()[at] = leaving_state(params, entered[k].index, epsilon);
            }
            if (bits != 0U && simt::warp_thread() == 0U) {
                simt::atomic_max<Team::kScope>(&control.levels[step.slot], levels);
                simt::atomic_or<Team::kScope>(&words.has_level, bits);
            }
        }
    }
    best = simt::reduce_min(simt::kAllThreads, best);
    if (simt::warp_thread() == 0U && best != kNoCost) {
        simt::atomic_min<Team::kScope>(&words.best_survivor, best);
    }
    return admitted;
}

// Where each thread has at most one candidate, simpler code is faster.
template <class Team, class Params>
ARCBEAM_DEVICE std::uint32_t recombine_histories(const Params& params, std::uint32_t first, std::uint32_t last,
                                                 bool only_words, float bound, const Step& step,
                                                 const RescoringWorkspace& work, Control& control,
                                                 RescoringControl& words) {
    const bool few = last - first <= Team::size();
    return where_it_is<Team>(work, few, [&](const auto& arrays) {
        constexpr std::uint32_t kEach = kIsShared<decltype(arrays)> ? 1U : 2U;
        return recombine_some<Team, kEach>(params, first, last, only_words, bound, step, arrays, control, words);
    });
}

}  // namespace arcbeam
