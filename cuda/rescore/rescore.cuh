// Stage rescore: the costs of candidates with what their words add. Contract and rule are the twin's,
// cpu_reference/decode/rescore.hpp.
//
// in   candidates with words, answered: those that were looked up, and those for which another one was
// out  their costs rescored and their histories after the word; control.best: the smallest cost, unless a boost is
//      still to come. A barrier must follow.
#pragma once

#include "rescore/boost.cuh"
#include "rescore/requests/request_arcs.cuh"
#include "rescore/requests/request_words.cuh"

namespace arcbeam {

// Copies the deviation and the next history of the candidate that was looked up to another one. Returns its
// ordered() cost.
ARCBEAM_DEVICE std::uint32_t take_answer(std::uint32_t candidate, std::uint32_t source,
                                         const RescoringWorkspace& work) {
    const std::uint32_t bits = simt::load(&work.extension().at(source)->place);
    float deviation;
    std::memcpy(&deviation, &bits, sizeof deviation);
    if (candidate != source) {
        simt::store(&work.extension().at(candidate)->history, simt::load(&work.extension().at(source)->history));
    }
    return rescore_one(work.candidate(), candidate, deviation);
}

template <class Team, class Params>
ARCBEAM_DEVICE void rescore(const Params&, std::uint32_t num_with_words, std::uint32_t num_distinct,
                            const RescoringWorkspace& work, RescoringControl& control) {
    std::uint32_t best = kNoCost;
    for (std::uint32_t at = Team::rank(); at < num_distinct; at += Team::size()) {
        const std::uint32_t candidate = work.distinct()[at];
        const std::uint32_t key = take_answer(candidate, candidate, work);
        best = key < best ? key : best;
    }
    for (std::uint32_t at = Team::rank(); at < num_with_words; at += Team::size()) {
        const std::uint32_t candidate = work.with_words()[at];
        if (candidate != kNoIndex) {
            const std::uint32_t source = simt::load(&work.extension().at(candidate)->place);
            const std::uint32_t key = take_answer(candidate, source, work);
            best = key < best ? key : best;
        }
    }
    if (!Params::kBoosts) {
        best = simt::reduce_min(simt::kAllThreads, best);
        if (simt::warp_thread() == 0U && best != kNoCost) {
            simt::atomic_min<Team::kScope>(&control.best, best);
        }
    }
}

// What became of the words of a step. If they are not answered, the frame has to be given up.
struct LookedUp {
    bool answered;
    std::uint32_t num_distinct;  // how many candidates are looked up for others, too; 0 if each for itself
};

// Looks up the words of the listed candidates and rescores the candidates. Barriers are passed, one at the end.
template <class Team, class Params>
ARCBEAM_DEVICE LookedUp look_up_words(const Params& params, RescoringLane& lane, std::uint32_t num_with_words,
                                      std::uint32_t slot, const RescoringWorkspace& work) {
    RescoringControl& control = *lane.words;
    lane.lookups.lookups += Team::rank() == 0U ? num_with_words : 0U;
    Questions questions{work.distinct(), 0U, work.extension(), work.key_owner(), work.candidate(), &control.best};
    // With few words, looking each up takes less time than finding out which are the same.
    const bool each_alone = !Params::kLanesRequest && num_with_words <= Team::size() / (2U * kSearching);
    if (each_alone) {
        questions.distinct = work.with_words();
        questions.num_distinct = num_with_words;
        questions.table.size = 0U;
    } else {
        claim_words<Team>(num_with_words, slot, work, control);
        Team::barrier();
        questions.num_distinct = simt::load(&control.num_distinct[slot]);
    }
    if constexpr (!Params::kLanesRequest) {
        answer_words<Team>(of_kernel(params), questions, lane.lookups);
        Team::barrier();
        if (each_alone) {
            return {true, 0U};
        }
    } else {
        LookupResult result;
        if (requests_arcs(params)) {
            result = request_arcs(of_kernel(params), questions, control);
        } else {
            result = request_words(of_kernel(params), questions, control);
        }
        lane.lookups.distinct += result.counts.distinct;
        lane.lookups.misses += result.counts.misses;
        if (!result.answered) {
            return {false, 0U};
        }
    }
    rescore<Team>(params, num_with_words, questions.num_distinct, work, control);
    Team::barrier();
    return {true, questions.num_distinct};
}

// Adds to the listed candidates what their words add. Barriers are passed, one at the end. False if the host has
// not answered.
template <class Team, class Params>
ARCBEAM_DEVICE bool look_up_and_rescore(const Params& params, RescoringLane& lane, std::uint32_t num_with_words,
                                        std::uint32_t slot, const RescoringWorkspace& work) {
    const LookedUp looked_up = look_up_words<Team>(params, lane, num_with_words, slot, work);
    if constexpr (Params::kBoosts) {
        if (looked_up.answered) {
            boost_words<Team>(params, params.boosts[lane.state.utterance], num_with_words, looked_up.num_distinct,
                              work, *lane.words);
            Team::barrier();
        }
    }
    return looked_up.answered;
}

}  // namespace arcbeam
