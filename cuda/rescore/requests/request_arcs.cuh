// Stage lookup where the host has the arcs of the large model and its back-off weights (Fukunaga et al. 2019). The
// index has which of these pieces a word needs. Each piece is looked up in the arc cache and in the lane's own
// table, and all missing ones are requested in one round. The lane adds the pieces up, in the order that the rules
// prescribe.
//
// If any piece of a word is missing, all pieces of the word are claimed in the table. Those that the cache had are
// entered in the table, too, because the cache may have lost them when the answers come.
#pragma once

#include "rescore/requests/request_words.cuh"

namespace arcbeam {

// The arc that a word takes (kNoLmArc for an unknown word), and the state that lists it.
struct LmPlace {
    std::uint32_t arc;
    std::uint32_t from;
};

// Where step_by() finds what it needs. For the small model that is the view. For the large model, the index gives
// the place (unless it is known already), and the cache and the table give the pieces that they have.
struct Pieces {
    const ArcCacheView& cache;  // of size 0 if it is not used
    const Requests& requests;
    bool is_large;
    bool has_place;
    LmPlace place;
    bool missing = false;

    template <std::uint32_t lanes>
    ARCBEAM_DEVICE std::uint32_t find(const LmView& lm, std::uint32_t state, std::uint32_t label, bool seeks,
                                      const Lanes<lanes>& together, std::uint32_t& reads) const {
        const std::uint32_t found = find_together<lanes>(lm, state, label, seeks && !has_place, together, reads);
        const std::uint32_t known = state == place.from ? place.arc : kNoLmArc;
        return has_place ? known : found;
    }

    ARCBEAM_DEVICE Answer look_up(const Single& single) {
        Answer answer{0.0F, kLmEmptyHistory};
        if (!find_single(cache, single, answer) && !find_answer(requests, single.number, single.label, answer)) {
            missing = true;
        }
        return answer;
    }

    ARCBEAM_DEVICE float backoff_weight(const LmView& lm, std::uint32_t state) {
        return is_large ? look_up(Single{state, kOfState}).cost : lm.backoff_weights[state];
    }

    ARCBEAM_DEVICE LmArc arc(const LmView& lm, std::uint32_t arc) {
        if (!is_large) {
            return lm.arcs[arc];
        }
        place.arc = arc;
        const Answer answer = look_up(Single{arc, kOfArc});
        return LmArc{answer.next_state, answer.cost};
    }
};

// Claims all pieces that a word needs. For each, enters what the cache has, or lists a question. Each of `lanes`
// threads takes one piece at a time.
template <std::uint32_t lanes>
ARCBEAM_DEVICE void ask_for(const RescoringParams& params, const Requests& requests, std::uint32_t state,
                            const LmPlace& place, RescoringControl& control, LookupCounts& counts) {
    const LmView& lm = params.lms.large;
    for (bool more = true; more;) {
        Single own{kNoLmArc, kOfArc};
        for (std::uint32_t i = 0U; more && i < lanes; ++i) {
            more = state != place.from;
            if (simt::warp_thread() % lanes == i) {
                own = more ? Single{state, kOfState} : Single{place.arc, kOfArc};
            }
            state = more ? lm.backoff_state(state) : state;
        }
        if (own.number == kNoLmArc) {
            continue;
        }
        const Claimed claimed = claim_answer(requests, own.number, own.label, control);
        if (claimed.place == kNoIndex || !claimed.is_new) {
            continue;
        }
        Answer answer{};
        if (find_single(params.cache, own, answer)) {
            enter_answer(requests, claimed.place, answer);
        } else {
            list_question(requests, claimed.place, Question{own.number, own.label}, control);
            ++counts.misses;
        }
    }
}

// Like answer_some(), where the large model is read in pieces. Words that lack a piece stay open and are marked.
// `again`: examines only marked ones. `open`: whether this thread has marked any.
template <std::uint32_t kHalf, class Params>
ARCBEAM_DEVICE LookupCounts request_some_arcs(const Params& params, const Questions& questions,
                                              RescoringControl& control, bool again, bool& open) {
    LookupCounts counts;
    constexpr std::uint32_t kGroups = simt::kWarpSize / (2U * kHalf);  // of a warp
    const Lanes<kHalf> together{simt::kAllThreads};
    const Requests requests = requests_of(control);
    const std::uint32_t lane = simt::warp_thread();
    const bool is_large = (lane / kHalf) % 2U == 0U;
    const bool is_first = lane % (2U * kHalf) == 0U;
    const LmView& lm = is_large ? params.lms.large : params.lms.small;
    const std::uint32_t* const labels = is_large ? params.lms.large_labels : params.lms.small_labels;
    const ArcCacheView cache{params.cache.entries, again ? 0U : params.cache.size};
    open = false;
    for (std::uint32_t first = simt::thread_rank() / simt::kWarpSize * kGroups; first < questions.num_distinct;
         first += simt::block_size() / simt::kWarpSize * kGroups) {
        const std::uint32_t at = first + lane / (2U * kHalf);
        std::uint32_t candidate = kNoIndex;
        if (at < questions.num_distinct) {
            candidate = questions.distinct[at];
        }
        const bool has = candidate != kNoIndex && (!again || (candidate & kOpen) != 0U);
        if (!simt::any(simt::kAllThreads, has)) {
            continue;
        }
        candidate &= ~kOpen;
        std::uint32_t label = 0U;
        Extension extension{};
        if (has) {
            extension = questions.extension[candidate];
            label = simt::load_readonly(labels + known_word(params, extension.word));
        }
        const std::uint32_t state =
            is_large ? models_part(params, extension.history).large : models_part(params, extension.history).small;
        const std::uint32_t requested = is_large ? label & ~kKeepsSmallCost : label;
        const bool is_kept = has && 2U * at + 1U < requests.kept().size;
        Pieces pieces{cache, requests, is_large, false, {kNoLmArc, kLmEmptyHistory}};
        LmStep step{};
        if (again && is_kept) {
            const std::uint64_t kept = requests.kept()[2U * at + (is_large ? 0U : 1U)];
            const auto upper = static_cast<std::uint32_t>(kept >> 32U);
            const auto lower = static_cast<std::uint32_t>(kept);
            pieces.has_place = is_large;
            pieces.place = LmPlace{upper, lower};
            std::memcpy(&step.cost, &upper, sizeof step.cost);
            step.next_state = lower;
        }
        const bool seeks = has && (is_large || !(again && is_kept));
        Reads reads;
        const LmStep found = step_by<kHalf>(lm, state, requested, seeks, together, reads, pieces);
        step = seeks ? found : step;
        const std::uint32_t lacks = together.votes(pieces.missing);  // of the half that reads the large model
        const bool is_open = (lacks | simt::shuffle_xor(simt::kAllThreads, lacks, kHalf)) != 0U;
        const LmStep other{simt::shuffle_xor(simt::kAllThreads, step.cost, kHalf),
                           simt::shuffle_xor(simt::kAllThreads, step.next_state, kHalf), 0U};
        simt::warp_sync(simt::kAllThreads);  // all have read before anything is overwritten
        if (has && is_open) {
            if (is_large) {
                pieces.place.from = step.from;
                ask_for<kHalf>(params, requests, state, pieces.place, control, counts);
            }
            if (is_kept && lane % kHalf == 0U) {
                std::uint32_t upper = pieces.place.arc;
                if (!is_large) {
                    std::memcpy(&upper, &step.cost, sizeof upper);
                }
                const std::uint32_t lower = is_large ? step.from : step.next_state;
                requests.kept()[2U * at + (is_large ? 0U : 1U)] = static_cast<std::uint64_t>(upper) << 32U | lower;
            }
            open = true;
        }
        if (has && is_first) {
            if (!is_open) {
                const Deviation deviation = deviate(params.lms, label, step, other);
                questions.table[extension.place] = kNoIndex;
                std::uint32_t bits;
                std::memcpy(&bits, &deviation.cost, sizeof bits);
                const History next = with_models_part(params, extension.history, deviation.next);
                questions.extension[candidate] = Extension{next, bits, extension.word};
                counts.distinct += reads.others;
            }
            questions.distinct[at] = is_open ? candidate | kOpen : candidate;
        }
    }
    return counts;
}

// answer_words() by requests for arcs; see request_words().
template <class Params>
ARCBEAM_DEVICE LookupResult request_arcs(const Params& params, const Questions& questions,
                                         RescoringControl& control) {
    LookupResult result;
    result.answered = true;
    for (bool again = false; result.answered; again = true) {
        bool open = false;
        const LookupCounts some = questions.num_distinct <= simt::block_size() / kSearching
                                      ? request_some_arcs<kSearching>(params, questions, control, again, open)
                                      : request_some_arcs<1U>(params, questions, control, again, open);
        result.counts.distinct += some.distinct;
        result.counts.misses += some.misses;
        if (!simt::block_barrier_or(open)) {
            break;
        }
        // With no question to send, other threads have entered what was missing.
        result.answered = send_questions(params, control).answered;
    }
    return result;
}

}  // namespace arcbeam
