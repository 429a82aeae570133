// What a boost adds to the candidates with words (law 9).
//
// boost_words       after what language models add to them
// boost_candidates  without models: to the candidates of emitting arcs, whose words expand() has noted
//
// in   the candidates; those with words in one or two lists, or all
// out  their costs boosted, and the boost states of their histories after the word; control.best: the smallest cost
//      A barrier must follow.
#pragma once

#include "decode/expand.cuh"
#include "rescore/listed.cuh"
#include "rescore/lookup.cuh"
#include "shared/boost.hpp"

namespace arcbeam {

// `num_distinct`: how many are looked up for others, too; these are no longer in work.with_words().
template <class Team, class Params>
ARCBEAM_DEVICE void boost_words(const Params& params, const BoostView& boost, std::uint32_t num_with_words,
                                std::uint32_t num_distinct, const RescoringWorkspace& work,
                                RescoringControl& control) {
    std::uint32_t best = kNoCost;
    for (std::uint32_t at = Team::rank(); at < num_distinct + num_with_words; at += Team::size()) {
        const std::uint32_t candidate =
            at < num_distinct ? work.distinct()[at] : work.with_words()[at - num_distinct];
        if (candidate == kNoIndex) {
            continue;
        }
        const Extension extension = work.extension()[candidate];
        const BoostStep step = boost_step(boost, boost_part(params, extension.history), extension.word);
        const std::uint32_t key = rescore_one(work.candidate(), candidate, step.cost);
        best = key < best ? key : best;
        simt::store(&work.extension().at(candidate)->history,
                    with_boost_part(params, extension.history, step.next_state));
    }
    best = simt::reduce_min(simt::kAllThreads, best);
    if (simt::warp_thread() == 0U && best != kNoCost) {
        simt::atomic_min<Team::kScope>(&control.best, best);
    }
}

// The words of arcs, which expand() reads with their targets, so that both loads wait together. Those of the
// candidates lie after the candidates.
template <class Params>
struct WordsBeside {
    using Read = std::uint32_t;
    const Params& params;

    ARCBEAM_DEVICE Read read(std::uint32_t arc) const { return simt::load_readonly(params.words + arc); }
    ARCBEAM_DEVICE void note(const Workspace& work, std::uint32_t candidate, Read word) const {
        auto* const extensions = reinterpret_cast<Extension*>(work.candidate.data + work.candidate.size);
        simt::store(&extensions[candidate].word, word);
    }
};

template <class Params>
ARCBEAM_DEVICE auto beside_targets(const Params& params) {
    if constexpr (Params::kBoostsAlone) {
        return WordsBeside<Params>{params};
    } else {
        return NothingBeside{};
    }
}

// Boosts the n candidates of the emitting arcs, whose words are noted. Those beyond `bound` are given up. A thread
// takes kEach candidates at a time, because they may lie in device memory.
template <class Team, std::uint32_t kEach, class Work, class Params>
ARCBEAM_DEVICE void boost_some(const Params& params, const RescoringLane& lane, std::uint32_t n, float bound,
                               const Work& work) {
    const std::uint32_t first_log = lane.state.log_size - lane.state.num_tokens;
    RescoringControl& control = words_beside(work, *lane.words);
    std::uint32_t best = kNoCost;
    std::uint32_t within = 0U;
    for (std::uint32_t first = Team::rank(); first < n; first += kEach * Team::size()) {
        Candidate candidate[kEach];
        std::uint32_t word[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            candidate[k] = Candidate{kNoPacked, 0U, 0U};
            word[k] = kNoWord;
            if (i < n) {
                candidate[k] = work.candidate()[i];
                word[k] = simt::load(&work.extension().at(i)->word);
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            History history{kNoPhrase, 0U};
            if (admits(bound, packed_cost(candidate[k].packed))) {
                auto key = static_cast<std::uint32_t>(candidate[k].packed >> 32U);
                history = lane.histories[candidate[k].source - first_log];
                if (word[k] != kNoWord) {
                    const BoostStep step = listed_step(listed_of(lane), boost_part(params, history), word[k]);
                    key = rescore_one(work.candidate(), i, step.cost);
                    history = with_boost_part(params, history, step.next_state);
                }
                best = key < best ? key : best;
                ++within;
            } else if (i < n) {
                simt::store(&work.candidate().at(i)->packed, kNoPacked);
            }
            if (i < n) {
                work.extension()[i] = Extension{history, kNoIndex, kNoWord};
            }
        }
    }
    best = simt::reduce_min(simt::kAllThreads, best);
    within = simt::reduce_add(simt::kAllThreads, within);
    if (simt::warp_thread() == 0U && within != 0U) {
        simt::atomic_min<Team::kScope>(&control.best, best);
        simt::atomic_add<Team::kScope>(&control.num_within, within);
    }
}

template <class Team, class Params>
ARCBEAM_DEVICE void boost_candidates(const Params& params, const RescoringLane& lane, std::uint32_t n, float bound,
                                     const RescoringWorkspace& work) {
    where_it_is<Team>(work, n <= Team::size(), [&](const auto& arrays) {
        constexpr std::uint32_t kEach = kIsShared<decltype(arrays)> ? 1U : 4U;
        boost_some<Team, kEach>(params, lane, n, bound, arrays);
    });
}

}  // namespace arcbeam
