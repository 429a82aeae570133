// Stage lookup where the host has the large model. Each distinct (history, word) is answered by the arc cache, by
// the lane's own table, or by the host.
#pragma once

#include "rescore/lookup.cuh"

namespace arcbeam {

// Marks a candidate in the list of those that are looked up: it is not answered yet
constexpr std::uint32_t kOpen = 0x80000000U;

// Looks a word up in the lane's table, and lists a request if there is none for the word yet. Returns whether
// the answer is there.
ARCBEAM_DEVICE bool request_step(std::uint32_t state, std::uint32_t label, RescoringControl& control,
                                 LookupCounts& counts, LmStep& step) {
    const Requests requests = requests_of(control);
    const Claimed claimed = claim_answer(requests, state, label, control);
    if (claimed.place == kNoIndex) {
        return false;
    }
    if (claimed.is_new) {
        list_question(requests, claimed.place, Question{state, label}, control);
        ++counts.misses;
        return false;
    }
    const Answer answer = requests.answers()[claimed.place];
    step = LmStep{answer.cost, answer.next_state, 0U};
    return answer.next_state != kUnanswered;
}

// Like answer_some(), for a model that the host has. Candidates that stay open are marked. `again`: examines only
// marked ones.
template <bool kTogether, class Params>
ARCBEAM_DEVICE LookupCounts request_some_words(const Params& params, const Questions questions,
                                               RescoringControl& control, bool again) {
    LookupCounts counts;
    constexpr std::uint32_t kHalf = kTogether ? kSearching : 1U;
    const std::uint32_t lane = simt::warp_thread();
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
        const Extension extension = questions.extension[candidate];
        const std::uint32_t word = known_word(params, extension.word);
        const std::uint32_t label =
            simt::load_readonly((is_large ? params.lms.large_labels : params.lms.small_labels) + word);
        const History models = models_part(params, extension.history);
        const std::uint32_t state = is_large ? models.large : models.small;
        const std::uint32_t requested = is_large ? label & ~kKeepsSmallCost : label;
        const std::uint32_t key = is_large ? state : state | kOfSmallModel;
        LmStep step{};
        bool known = false;
        if (params.cache.size != 0U && lane % kHalf == 0U && !(again && is_large)) {
            known = find_cached(params.cache, key, requested, step);
        }
        if ((simt::ballot(half, known) & half) == 0U) {
            if (is_large) {
                known = lane % kHalf == 0U && request_step(state, requested, control, counts, step);
            } else {
                Reads reads;
                step = step_in<kHalf>(params.lms.small, state, requested, true, Lanes<kHalf>{half}, reads);
                if (params.cache.size != 0U && lane % kHalf == 0U) {
                    keep_cached(params.cache, params.counters, key, requested, step);
                }
            }
        }
        const LmStep other{simt::shuffle_xor(both, step.cost, kHalf),
                           simt::shuffle_xor(both, step.next_state, kHalf), 0U};
        simt::warp_sync(both);  // all have read before anything is overwritten
        if (is_first && known) {
            const Deviation deviation = deviate(params.lms, label, step, other);
            questions.table[extension.place] = kNoIndex;
            std::uint32_t bits;
            std::memcpy(&bits, &deviation.cost, sizeof bits);
            const History next = with_models_part(params, extension.history, deviation.next);
            questions.extension[candidate] = Extension{next, bits, extension.word};
            ++counts.distinct;
        }
        if (is_first) {
            questions.distinct[at] = known ? candidate : candidate | kOpen;
        }
    }
    // A history's number may have come through the arc cache, from another block. After the next barrier any thread
    // may read its words.
    simt::fence<Scope::device>();
    return counts;
}

// The result of answer_words() by requests. If it is not answered, the frame has to be given up. A barrier was
// passed.
struct LookupResult {
    LookupCounts counts;
    bool answered;
};

template <class Params>
ARCBEAM_DEVICE LookupResult request_words(const Params& params, const Questions questions,
                                          RescoringControl& control) {
    LookupResult result;
    Sent sent{true, true};
    for (bool again = false; sent.answered && sent.any; again = true) {
        const LookupCounts some = questions.num_distinct <= simt::block_size() / kSearching
                                      ? request_some_words<true>(params, questions, control, again)
                                      : request_some_words<false>(params, questions, control, again);
        result.counts.distinct += some.distinct;
        result.counts.misses += some.misses;
        sent = send_questions(params, control);
    }
    result.answered = sent.answered;
    return result;
}

}  // namespace arcbeam
