// What a boost adds to the candidates with words (law 9). A history's `large` is its boost state here, and there is
// no language model.
//
// in   wanted: candidates with words
// out  their costs boosted and their histories after the word; control.best: the smallest cost
//      A barrier must follow.
#pragma once

#include "rescore/lookup.cuh"
#include "shared/boost.hpp"

namespace arcbeam {

template <class Team>
ARCBEAM_DEVICE void boost_words(const BoostView& boost, std::uint32_t num_wanted, const RescoringWorkspace& work,
                                RescoringControl& control) {
    std::uint32_t best = kNoCost;
    for (std::uint32_t at = Team::rank(); at < num_wanted; at += Team::size()) {
        const std::uint32_t candidate = work.wanted()[at];
        const Extension asked = work.extension()[candidate];
        const BoostStep step = boost_step(boost, asked.history.large, asked.word);
        const std::uint32_t key = rescore_one(work.candidate(), candidate, step.cost);
        best = key < best ? key : best;
        simt::store(&work.extension().at(candidate)->history, History{step.next_state, 0U});
    }
    best = simt::reduce_min(simt::kAllThreads, best);
    if (simt::warp_thread() == 0U && best != kNoCost) {
        simt::atomic_min<Team::kScope>(&control.best, best);
    }
}

}  // namespace arcbeam
