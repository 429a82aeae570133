// Stage rescore: candidates with what their words add. Contract and rule are the twin's,
// cpu_reference/decode/rescore.hpp.
//
// in   candidates with words, answered: those that ask, and those that have another ask for them
// out  their costs rescored and their histories after the word; control.best: the smallest cost. A barrier must
// follow.
#pragma once

#include "rescore/ask.cuh"

namespace arcbeam {

// Gives a candidate the deviation and the next history that the one which asked has got. Returns its ordered()
// cost.
ARCBEAM_DEVICE std::uint32_t rescore_one(std::uint32_t candidate, std::uint32_t asking,
                                         const RescoringWorkspace& work) {
    const std::uint32_t bits = simt::load(&work.extension().at(asking)->place);
    float deviation;
    std::memcpy(&deviation, &bits, sizeof deviation);
    const std::uint64_t packed = simt::load(&work.candidate().at(candidate)->packed);
    const float cost = rescore_cost(packed_cost(packed), deviation);
    simt::store(&work.candidate().at(candidate)->packed, pack(cost, packed_arc(packed)));
    if (candidate != asking) {
        simt::store(&work.extension().at(candidate)->history, simt::load(&work.extension().at(asking)->history));
    }
    return is_finite(cost) ? ordered(cost) : kNoCost;
}

ARCBEAM_DEVICE void rescore(std::uint32_t num_wanted, std::uint32_t num_distinct, const RescoringWorkspace& work,
                            RescoringControl& control) {
    std::uint32_t best = kNoCost;
    for (std::uint32_t at = simt::thread_rank(); at < num_distinct; at += simt::block_size()) {
        const std::uint32_t candidate = work.distinct()[at];
        const std::uint32_t key = rescore_one(candidate, candidate, work);
        best = key < best ? key : best;
    }
    for (std::uint32_t at = simt::thread_rank(); at < num_wanted; at += simt::block_size()) {
        const std::uint32_t candidate = work.wanted()[at];
        if (candidate != kNoIndex) {
            const std::uint32_t asking = simt::load(&work.extension().at(candidate)->place);
            const std::uint32_t key = rescore_one(candidate, asking, work);
            best = key < best ? key : best;
        }
    }
    best = simt::reduce_min(simt::kAllLanes, best);
    if (simt::lane() == 0U && best != kNoCost) {
        simt::atomic_min<Scope::block>(&control.best, best);
    }
}

// Looks the words of the listed candidates up and rescores them; barriers are passed, one at the end. False if the
// host has not answered.
ARCBEAM_DEVICE bool look_up_and_rescore(const RescoringParams& params, RescoringLane& lane,
                                        std::uint32_t num_wanted, std::uint32_t slot,
                                        const RescoringWorkspace& work) {
    RescoringControl& control = *lane.words;
    claim_words(num_wanted, slot, work, control);
    simt::block_barrier();
    const std::uint32_t num_distinct = simt::load(&control.num_distinct[slot]);
    if (!kLanesAsk) {
        answer_words(params, num_distinct, work, lane.lookups);
        simt::block_barrier();
    } else {
        const Questions questions{work.distinct(), num_distinct, work.extension(), work.asked()};
        const AskedWords asked = ask_words(params, questions, control);
        lane.lookups.distinct += asked.counts.distinct;
        lane.lookups.misses += asked.counts.misses;
        if (!asked.answered) {
            return false;
        }
    }
    rescore(num_wanted, num_distinct, work, control);
    simt::block_barrier();
    lane.lookups.lookups += simt::thread_rank() == 0U ? num_wanted : 0U;
    return true;
}

}  // namespace arcbeam
