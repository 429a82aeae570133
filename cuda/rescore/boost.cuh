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

// note_words() and boost_words() in one step, where each thread has at most one candidate: that saves a barrier,
// and listing the candidates with words.
template <class Team, class Work, class Params>
ARCBEAM_DEVICE void boost_at_once(const Params& params, const BoostView& boost, const Array<History>& histories,
                                  std::uint32_t first_log, std::uint32_t n, float bound, const Work& work,
                                  RescoringControl& given) {
    RescoringControl& control = words_beside(work, given);
    std::uint32_t best = kNoCost;
    const std::uint32_t i = Team::rank();
    if (i < n) {
        const Candidate candidate = work.candidate()[i];
        Extension extension{{0U, 0U}, kNoIndex, kNoWord};
        if (admits(bound, packed_cost(candidate.packed))) {
            extension.word = simt::load_readonly(params.words + packed_arc(candidate.packed));
            extension.history = histories[candidate.source - first_log];
            best = static_cast<std::uint32_t>(candidate.packed >> 32U);
            if (extension.word != kNoWord) {
                const BoostStep step = boost_step(boost, boost_part(params, extension.history), extension.word);
                best = rescore_one(work.candidate(), i, step.cost);
                extension.history = with_boost_part(params, extension.history, step.next_state);
            }
        } else {
            simt::store(&work.candidate().at(i)->packed, kNoPacked);
        }
        work.extension()[i] = extension;
    }
    const std::uint32_t within = simt::popcount(simt::ballot(simt::kAllThreads, best != kNoCost));
    best = simt::reduce_min(simt::kAllThreads, best);
    if (simt::warp_thread() == 0U && within != 0U) {
        simt::atomic_min<Team::kScope>(&control.best, best);
        simt::atomic_add<Team::kScope>(&control.num_within, within);
    }
}

// Reads the words of a frame's candidates, see note_words(), and where there are few candidates boosts them as
// well.
template <class Team, class Params>
ARCBEAM_DEVICE void note_or_boost(const Params& params, const RescoringLane& lane, std::uint32_t n, float bound,
                                  const RescoringWorkspace& work) {
    const std::uint32_t first_log = lane.state.log_size - lane.state.num_tokens;
    where_it_is<Team>(work, n <= Team::size(), [&](const auto& arrays) {
        if constexpr (kIsShared<decltype(arrays)>) {
            boost_at_once<Team>(params, params.boosts[lane.state.utterance], lane.histories, first_log, n, bound,
                                arrays, *lane.words);
        } else {
            note_some<Team, 4U>(params, lane.histories, first_log, n, bound, arrays, *lane.words);
        }
    });
}

}  // namespace arcbeam
