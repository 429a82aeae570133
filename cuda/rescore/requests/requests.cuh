// The requests of a lane: a table of what the host has answered, and rounds of questions.
//
// Within a frame nothing is lost from the table. So a frame that was given up because an answer was missing finds
// everything it has requested when it is redone. The table is emptied between frames.
#pragma once

#include "rescore/hypotheses.cuh"
#include "rescore/requests/answers_copied.cuh"
#include "rescore/requests/answers_mapped.cuh"
#include "rescore/requests/arc_cache.cuh"
#include "rescore/requests/single_arcs.cuh"

namespace arcbeam {

constexpr std::uint64_t kNoQuestion = 0xffffffffffffffffU;  // a free entry
constexpr std::uint32_t kUnanswered = 0xffffffffU;          // the next state of an entry without an answer

struct Requests {
    unsigned char* memory;
    unsigned char* mapped;
    unsigned char* answer_buffer;  // of Requested::arcs
    std::uint32_t size;

    // state << 32 | label, as in a question
    ARCBEAM_DEVICE Array<std::uint64_t> keys() const { return {reinterpret_cast<std::uint64_t*>(memory), size}; }
    ARCBEAM_DEVICE Array<Answer> answers() const {
        return {reinterpret_cast<Answer*>(memory + 8U * static_cast<std::uint64_t>(size)), size};
    }
    // The entries of the table that the questions of a round belong to.
    ARCBEAM_DEVICE Array<std::uint32_t> places() const {
        return {reinterpret_cast<std::uint32_t*>(memory + 16U * static_cast<std::uint64_t>(size)), size};
    }
    // For Requested::arcs: what is known of the first size / 4 words of a step that wait for answers, two values
    // each.
    ARCBEAM_DEVICE Array<std::uint64_t> kept() const {
        return {reinterpret_cast<std::uint64_t*>(memory + 20U * static_cast<std::uint64_t>(size)), size / 2U};
    }
    ARCBEAM_DEVICE RequestHead* head() const { return reinterpret_cast<RequestHead*>(mapped); }
    ARCBEAM_DEVICE Array<Question> questions() const {
        return {reinterpret_cast<Question*>(mapped + kRequestHeadBytes), size};
    }
    ARCBEAM_DEVICE Array<Answer> replies() const {
        return {reinterpret_cast<Answer*>(mapped + kRequestHeadBytes + 8U * static_cast<std::uint64_t>(size)),
                size};
    }
};

// The requests of the lane. Their description is in shared memory, so that the search keeps its registers.
ARCBEAM_DEVICE Requests requests_of(const RescoringControl& control) {
    return {simt::load(&control.request_memory), simt::load(&control.request_mapped),
            simt::load(&control.answer_buffer), simt::load(&control.request_size)};
}

// Restores the state that the last launch has left. One thread does it.
ARCBEAM_DEVICE void open_requests(const RequestView& view, RescoringControl& control) {
    const Requests requests{view.memory, view.mapped, view.answer_buffer, view.size};
    simt::store(&control.request_memory, requests.memory);
    simt::store(&control.request_mapped, requests.mapped);
    simt::store(&control.answer_buffer, requests.answer_buffer);
    simt::store(&control.request_size, requests.size);
    simt::store(&control.request_slot, view.slot);
    simt::store(&control.request_first, 0U);
    simt::store(&control.request_round, static_cast<std::uint32_t>(simt::load(&requests.head()->posted) >> 32U));
    simt::store(&control.request_used, simt::load(&requests.head()->used));
    simt::store(&control.request_open, simt::load(&requests.head()->open));
    simt::store(&control.request_full, 0U);
    simt::store(&control.request_began, simt::cycles());
}

// Saves the state for the next launch. One thread does it.
ARCBEAM_DEVICE void close_requests(const RescoringParams& params, const RescoringControl& control) {
    const Requests requests = requests_of(control);
    simt::store(&requests.head()->used, simt::load(&control.request_used));
    simt::store(&requests.head()->open, simt::load(&control.request_open));
    simt::atomic_add<Scope::device>(&params.counters->worked, simt::cycles() - simt::load(&control.request_began));
}

struct Claimed {
    std::uint32_t place;  // kNoIndex: the table is full
    bool is_new;          // the caller has to send a request
};

ARCBEAM_DEVICE std::uint64_t answer_key(std::uint32_t state, std::uint32_t label) {
    return static_cast<std::uint64_t>(state) << 32U | label;
}

ARCBEAM_DEVICE std::uint32_t answer_home(const Requests& requests, std::uint32_t state, std::uint32_t label) {
    const std::uint32_t mixed = (state * 0x9e3779b1U ^ label) * 0x85ebca6bU;
    return scaled((mixed ^ mixed >> 15U) * 0xc2b2ae35U, requests.size);
}

ARCBEAM_DEVICE Claimed claim_answer(const Requests& requests, std::uint32_t state, std::uint32_t label,
                                    RescoringControl& control) {
    const std::uint64_t key = answer_key(state, label);
    std::uint32_t place = answer_home(requests, state, label);
    for (std::uint32_t probes = 0U; probes < requests.size; ++probes) {
        std::uint64_t found = simt::load_relaxed<Scope::block>(requests.keys().at(place));
        if (found == kNoQuestion) {
            if (simt::load_relaxed<Scope::block>(&control.request_used) >= requests.size / 4U * 3U) {
                break;
            }
            found = simt::atomic_cas<Scope::block>(requests.keys().at(place), kNoQuestion, key);
            if (found == kNoQuestion) {
                simt::atomic_add<Scope::block>(&control.request_used, 1U);
                return {place, true};
            }
        }
        if (found == key) {
            return {place, false};
        }
        place = place + 1U == requests.size ? 0U : place + 1U;
    }
    simt::store_relaxed<Scope::block>(&control.request_full, 1U);
    return {kNoIndex, false};
}

// Finds the answer of an entry that has been claimed; false if it is not there. Others may claim and enter at the
// same time.
ARCBEAM_DEVICE bool find_answer(const Requests& requests, std::uint32_t state, std::uint32_t label,
                                Answer& answer) {
    const std::uint64_t key = answer_key(state, label);
    std::uint32_t place = answer_home(requests, state, label);
    for (std::uint32_t probes = 0U; probes < requests.size; ++probes) {
        const std::uint64_t found = simt::load_relaxed<Scope::block>(requests.keys().at(place));
        if (found == key) {
            const std::uint64_t bits =
                simt::load_relaxed<Scope::block>(reinterpret_cast<std::uint64_t*>(requests.answers().at(place)));
            std::memcpy(&answer, &bits, sizeof answer);
            return answer.next_state != kUnanswered;
        }
        if (found == kNoQuestion) {
            return false;
        }
        place = place + 1U == requests.size ? 0U : place + 1U;
    }
    return false;
}

// Enters a known answer in a place that the caller has claimed.
ARCBEAM_DEVICE void enter_answer(const Requests& requests, std::uint32_t place, const Answer& answer) {
    std::uint64_t bits;
    std::memcpy(&bits, &answer, sizeof bits);
    simt::store_relaxed<Scope::block>(reinterpret_cast<std::uint64_t*>(requests.answers().at(place)), bits);
}

// Lists a question whose place the caller has claimed.
ARCBEAM_DEVICE void list_question(const Requests& requests, std::uint32_t place, const Question& question,
                                  RescoringControl& control) {
    const std::uint32_t at = simt::atomic_add<Scope::block>(&control.num_questions, 1U);
    requests.questions()[at] = question;
    requests.places()[at] = place;
}

// Between two frames: empties the table once it is half full. Barriers are passed.
ARCBEAM_DEVICE void make_room_for_requests(RescoringControl& control) {
    const Requests requests = requests_of(control);
    const std::uint32_t used = simt::load(&control.request_used);
    simt::block_barrier();
    if (used <= requests.size / 2U) {
        return;
    }
    if (simt::thread_rank() == 0U) {
        simt::store(&control.request_used, 0U);
    }
    for (std::uint32_t i = simt::thread_rank(); i < requests.size; i += simt::block_size()) {
        requests.keys()[i] = kNoQuestion;
        requests.answers()[i] = Answer{0.0F, kUnanswered};
    }
    simt::block_barrier();
}

// Waits for the answers of the round, `posted` of them, and takes them into the table; false if they do not come.
// All threads call this after a barrier; further barriers are passed.
template <class Params>
ARCBEAM_DEVICE bool take_answers(const Params& params, std::uint32_t posted, RescoringControl& control) {
    const Requests requests = requests_of(control);
    if (simt::thread_rank() == 0U) {
        const std::uint64_t began = simt::cycles();
        const std::uint32_t round = simt::load(&control.request_round);
        const std::uint64_t expected = static_cast<std::uint64_t>(round) << 32U | posted;
        bool came;
        if (!requests_arcs(params)) {
            came = wait_for_mapped(requests.head(), expected, params.search.wait_cycles);
        } else {
            const std::uint32_t first = wait_for_copied(requests.answer_buffer, simt::load(&control.request_slot),
                                                        round, params.search.wait_cycles);
            came = first != kNotCome;
            simt::store(&control.request_first, first);
            if (!came) {
                leave_copied(requests.head(), expected);
            }
        }
        simt::atomic_add<Scope::device>(&params.counters->waited, simt::cycles() - began);
        simt::store(&control.num_answers, came ? posted : kNoIndex);
    }
    simt::block_barrier();
    const std::uint32_t count = simt::load(&control.num_answers);
    const std::uint32_t first = simt::load(&control.request_first);
    if (simt::thread_rank() == 0U) {
        simt::store(&control.request_open, count == kNoIndex ? 1U : 0U);
    }
    if (count == kNoIndex) {
        return false;
    }
    if (numbers_histories(params)) {
        simt::fence<Scope::system>();  // whoever finds a number in the cache may read its words; see
                                       // request_some_words()
    }
    for (std::uint32_t i = simt::thread_rank(); i < count; i += simt::block_size()) {
        const std::uint32_t place = requests.places()[i];
        Answer answer;
        if (!requests_arcs(params)) {
            answer = requests.replies()[i];
        } else {
            answer = copied_answer(requests.answer_buffer, first + i);
        }
        requests.answers()[place] = answer;
        if (params.cache.size != 0U) {
            const std::uint64_t key = requests.keys()[place];
            const auto state = static_cast<std::uint32_t>(key >> 32U);
            const auto label = static_cast<std::uint32_t>(key);
            if (requests_arcs(params)) {
                keep_single(params.cache, Single{state, label}, answer);
            } else {
                keep_cached(params.cache, params.counters, state, label,
                            LmStep{answer.cost, answer.next_state, 0U});
            }
        }
    }
    simt::block_barrier();
    if (requests_arcs(params) && simt::thread_rank() == 0U) {
        const std::uint64_t round = simt::load(&control.request_round);
        leave_copied(requests.head(), round << 32U | posted);
    }
    return true;
}

// The same for a round that the last launch has posted.
template <class Params>
ARCBEAM_DEVICE bool take_late_answers(const Params& params, RescoringControl& control) {
    return take_answers(params, static_cast<std::uint32_t>(simt::load(&requests_of(control).head()->posted)),
                        control);
}

// Sends the listed requests; returns whether all are answered, and whether there was anything to send. If an answer
// is missing, or there was no room to list a question, the frame has to be given up and the lane has to stop. All
// threads call this; barriers are passed, the first before anything else.
struct Sent {
    bool answered;
    bool any;
};

template <class Params>
ARCBEAM_DEVICE Sent send_questions(const Params& params, RescoringControl& control) {
    simt::block_barrier();
    const std::uint32_t count = simt::load(&control.num_questions);
    const bool is_full = simt::load(&control.request_full) != 0U;
    simt::block_barrier();
    if (is_full || count == 0U) {
        return {!is_full, false};
    }
    if (simt::thread_rank() == 0U) {
        const std::uint32_t round = simt::load(&control.request_round) + 1U;
        simt::store(&control.request_round, round);
        simt::store(&control.num_questions, 0U);
        simt::store_release<Scope::system>(&requests_of(control).head()->posted,
                                           static_cast<std::uint64_t>(round) << 32U | count);
    }
    return {take_answers(params, count, control), true};
}

}  // namespace arcbeam
