// What a boost adds to the candidates with words (law 9), after what language models add to them, if there are any.
//
// in   the candidates with words, in one or two lists
// out  their costs boosted, and the boost states of their histories after the word; control.best: the smallest cost
//      A barrier must follow.
#pragma once

#include "rescore/lookup.cuh"
#include "shared/boost.hpp"

namespace arcbeam {

// `num_distinct`: how many are listed as those that asked; these are not among the wanted ones any more.
template <class Team, class Params>
ARCBEAM_DEVICE void boost_words(const Params& params, const BoostView& boost, std::uint32_t num_wanted,
                                std::uint32_t num_distinct, const RescoringWorkspace& work,
                                RescoringControl& control) {
    std::uint32_t best = kNoCost;
    for (std::uint32_t at = Team::rank(); at < num_distinct + num_wanted; at += Team::size()) {
        const std::uint32_t candidate = at < num_distinct ? work.distinct()[at] : work.wanted()[at - num_distinct];
        if (candidate == kNoIndex) {
            continue;
        }
        const Extension asked = work.extension()[candidate];
        const BoostStep step = boost_step(boost, boost_part(params, asked.history), asked.word);
        const std::uint32_t key = rescore_one(work.candidate(), candidate, step.cost);
        best = key < best ? key : best;
        simt::store(&work.extension().at(candidate)->history,
                    with_boost_part(params, asked.history, step.next_state));
    }
    best = simt::reduce_min(simt::kAllThreads, best);
    if (simt::warp_thread() == 0U && best != kNoCost) {
        simt::atomic_min<Team::kScope>(&control.best, best);
    }
}

}  // namespace arcbeam
