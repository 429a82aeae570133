// Stage lookup where the host has the large model, or its arcs: what is distinct is answered by the arc cache, by
// the lane's own table, or by the host.
#pragma once

#include "rescore/lookup.cuh"

namespace arcbeam {

constexpr std::uint32_t kOpen = 0x80000000U;  // of a candidate in the list of those that ask: not answered yet

// The arc that a word takes, and the state that it leaves, by so many lanes.
struct LmPlace {
    std::uint32_t arc;
    std::uint32_t from;
};

template <std::uint32_t lanes>
ARCBEAM_DEVICE LmPlace place_in(const LmView& lm, std::uint32_t state, std::uint32_t label, std::uint32_t mask) {
    if (label == kUnknownLabel) {
        return {kNoLmArc, kLmEmptyHistory};
    }
    std::uint32_t reads = 0U;
    std::uint32_t arc = find_together<lanes>(lm, state, label, true, Lanes<lanes>{mask}, reads);
    while (arc == kNoLmArc) {
        state = lm.backoff_state(state);
        arc = find_together<lanes>(lm, state, label, true, Lanes<lanes>{mask}, reads);
    }
    return {arc, state};
}

// Looks a word up in the lane's table, and lists a question if nobody has asked yet: so many lanes together, of
// which the first one is told. Returns whether the answer is there.
template <std::uint32_t lanes>
ARCBEAM_DEVICE bool ask(const RescoringParams& params, std::uint32_t state, std::uint32_t label, std::uint32_t mask,
                        RescoringControl& control, LookupCounts& counts, LmStep& step) {
    const Mail mail = mail_of(control);
    const bool is_first = simt::lane() % lanes == 0U;
    Claimed claimed{kNoIndex, false};
    bool known = false;
    if (is_first) {
        claimed = claim_answer(mail, state, label, control);
        if (claimed.place != kNoIndex && !claimed.is_new) {
            const Answer answer = mail.answers()[claimed.place];
            step = LmStep{answer.cost, answer.next_state, 0U};
            known = answer.next_state != kUnanswered;
        }
    }
    if ((simt::ballot(mask, claimed.is_new) & mask) != 0U) {
        LmPlace place{kNoLmArc, kLmEmptyHistory};
        if (params.asks == Asks::arcs) {
            place = place_in<lanes>(params.lms.large, state, label, mask);
        }
        if (is_first) {
            const std::uint32_t at = simt::atomic_add<Scope::block>(&control.num_questions, 1U);
            mail.questions()[at] = Question{state, label, place.arc, place.from};
            mail.places()[at] = claimed.place;
            ++counts.misses;
        }
    }
    return known;
}

// As answer_some(), which has the model; those that stay open are marked. `again`: only those.
template <bool kTogether>
ARCBEAM_DEVICE LookupCounts ask_some(const RescoringParams& params, const Questions questions,
                                     RescoringControl& control, bool again) {
    LookupCounts counts;
    constexpr std::uint32_t kHalf = kTogether ? kSearching : 1U;
    const std::uint32_t lane = simt::lane();
    const bool is_large = (lane / kHalf) % 2U == 0U;
    const bool is_first = lane % (2U * kHalf) == 0U;
    const std::uint32_t half = ((1U << kHalf) - 1U) << lane / kHalf * kHalf;
    const std::uint32_t both = ((1U << 2U * kHalf) - 1U) << lane / (2U * kHalf) * (2U * kHalf);
    const std::uint32_t groups = simt::block_size() / (2U * kHalf);
    for (std::uint32_t at = simt::thread_rank() / (2U * kHalf); at < questions.num_distinct; at += groups) {
        const std::uint32_t entry = questions.distinct[at];
        if (again && (entry & kOpen) == 0U) {
            continue;
        }
        const std::uint32_t candidate = entry & ~kOpen;
        const Extension asked = questions.extension[candidate];
        const std::uint32_t label =
            simt::load_readonly((is_large ? params.lms.large_labels : params.lms.small_labels) + asked.word);
        const std::uint32_t state = is_large ? asked.history.large : asked.history.small;
        const std::uint32_t wanted = is_large ? label & ~kKeepsSmallCost : label;
        const std::uint32_t key = is_large ? state : state | kOfSmallModel;
        LmStep step{};
        bool known = false;
        if (params.cache.size != 0U && lane % kHalf == 0U && !(again && is_large)) {
            known = find_cached(params.cache, key, wanted, step);
        }
        if ((simt::ballot(half, known) & half) == 0U) {
            if (is_large) {
                known = ask<kHalf>(params, state, wanted, half, control, counts, step);
            } else {
                Reads reads;
                step = step_in<kHalf>(params.lms.small, state, wanted, true, Lanes<kHalf>{half}, reads);
                if (params.cache.size != 0U && lane % kHalf == 0U) {
                    keep_cached(params.cache, params.counters, key, wanted, step);
                }
            }
        }
        const LmStep other{simt::shuffle_xor(both, step.cost, kHalf),
                           simt::shuffle_xor(both, step.next_state, kHalf), 0U};
        simt::warp_sync(both);  // all have read what is overwritten
        if (is_first && known) {
            const Deviation deviation = deviate(params.lms, label, step, other);
            questions.asked[asked.place] = kNoIndex;
            std::uint32_t bits;
            std::memcpy(&bits, &deviation.cost, sizeof bits);
            questions.extension[candidate] = Extension{deviation.next, bits, asked.word};
            ++counts.distinct;
        }
        if (is_first) {
            questions.distinct[at] = known ? candidate : candidate | kOpen;
        }
    }
    return counts;
}

// answer_words() by mail. Not answered: the frame has to be given up. A barrier was passed.
struct AskedWords {
    LookupCounts counts;
    bool answered;
};

ARCBEAM_DEVICE AskedWords ask_words(const RescoringParams& params, const Questions questions,
                                    RescoringControl& control) {
    AskedWords asked;
    Sent sent{true, true};
    for (bool again = false; sent.answered && sent.any; again = true) {
        const LookupCounts some = questions.num_distinct <= simt::block_size() / kSearching
                                      ? ask_some<true>(params, questions, control, again)
                                      : ask_some<false>(params, questions, control, again);
        asked.counts.distinct += some.distinct;
        asked.counts.misses += some.misses;
        sent = send_questions(params, control);
    }
    asked.answered = sent.answered;
    return asked;
}

// What the end of a sentence costs after the histories of the final tokens: afterwards the lane's table has it.
// False if the lane has to stop. A barrier was passed.
ARCBEAM_DEVICE bool ask_ends(const RescoringParams& params, std::uint32_t num_tokens, const Tokens tokens,
                             const Array<History> histories, RescoringControl& control) {
    for (std::uint32_t i = simt::thread_rank(); i < num_tokens; i += simt::block_size()) {
        const std::uint32_t state = tokens.state[i];
        const float cost = simt::load(&tokens.token.at(i)->cost);
        if (is_finite(extend_epsilon(cost, simt::load_readonly(params.search.graph.finals + state)))) {
            const History history = histories[i];
            LmStep step;
            LookupCounts uncounted;
            ask<1U>(params, history.large, params.lms.large.num_labels, 1U << simt::lane(), control, uncounted,
                    step);
        }
    }
    return send_questions(params, control).answered;
}

// end_deviation(), once ask_ends() has the answers.
ARCBEAM_DEVICE float asked_end_deviation(const RescoringParams& params, const History& history,
                                         RescoringControl& control) {
    const Mail mail = mail_of(control);
    const std::uint32_t place = claim_answer(mail, history.large, params.lms.large.num_labels, control).place;
    const Answer answer = mail.answers()[place];
    return deviation_cost(params.lms, answer.cost,
                          lm_step(params.lms.small, history.small, params.lms.small.num_labels).cost);
}

}  // namespace arcbeam
