// The mail of a lane: a table of what the host has answered, and rounds of questions.
//
// Within a frame nothing is lost from the table, so a frame that is given up for want of an answer finds all that
// it has asked when it is redone. It is emptied between frames.
#pragma once

#include "rescore/answers_copied.cuh"
#include "rescore/answers_mapped.cuh"
#include "rescore/arc_cache.cuh"
#include "rescore/hypotheses.cuh"
#include "rescore/single_arcs.cuh"

namespace arcbeam {

constexpr std::uint64_t kNoQuestion = 0xffffffffffffffffU;  // a free entry
constexpr std::uint32_t kUnanswered = 0xffffffffU;          // the next state of an entry without an answer

struct Mail {
    unsigned char* memory;
    unsigned char* mapped;
    unsigned char* inbox;  // of Asks::arcs
    std::uint32_t size;

    // state << 32 | label, as in a question
    ARCBEAM_DEVICE Array<std::uint64_t> keys() const { return {reinterpret_cast<std::uint64_t*>(memory), size}; }
    ARCBEAM_DEVICE Array<Answer> answers() const {
        return {reinterpret_cast<Answer*>(memory + 8U * static_cast<std::uint64_t>(size)), size};
    }
    // Of a round's questions, the entries of the table.
    ARCBEAM_DEVICE Array<std::uint32_t> places() const {
        return {reinterpret_cast<std::uint32_t*>(memory + 16U * static_cast<std::uint64_t>(size)), size};
    }
    // Of Asks::arcs: of the first size / 4 words of a step that wait for answers, what is known of them: two each
    ARCBEAM_DEVICE Array<std::uint64_t> kept() const {
        return {reinterpret_cast<std::uint64_t*>(memory + 20U * static_cast<std::uint64_t>(size)), size / 2U};
    }
    ARCBEAM_DEVICE MailHead* head() const { return reinterpret_cast<MailHead*>(mapped); }
    ARCBEAM_DEVICE Array<Question> questions() const {
        return {reinterpret_cast<Question*>(mapped + kMailHeadBytes), size};
    }
    ARCBEAM_DEVICE Array<Answer> replies() const {
        return {reinterpret_cast<Answer*>(mapped + kMailHeadBytes + 8U * static_cast<std::uint64_t>(size)), size};
    }
};

// The lane's. What is known of it is in shared memory, so that the search keeps its registers.
ARCBEAM_DEVICE Mail mail_of(const RescoringControl& control) {
    return {simt::load(&control.mail_memory), simt::load(&control.mail_mapped), simt::load(&control.mail_inbox),
            simt::load(&control.mail_size)};
}

// As the launch before has left it. One thread does it.
ARCBEAM_DEVICE void open_mail(const MailView& view, RescoringControl& control) {
    const Mail mail{view.memory, view.mapped, view.inbox, view.size};
    simt::store(&control.mail_memory, mail.memory);
    simt::store(&control.mail_mapped, mail.mapped);
    simt::store(&control.mail_inbox, mail.inbox);
    simt::store(&control.mail_size, mail.size);
    simt::store(&control.mail_seat, view.seat);
    simt::store(&control.mail_first, 0U);
    simt::store(&control.mail_round, static_cast<std::uint32_t>(simt::load(&mail.head()->posted) >> 32U));
    simt::store(&control.mail_used, simt::load(&mail.head()->used));
    simt::store(&control.mail_open, simt::load(&mail.head()->open));
    simt::store(&control.mail_full, 0U);
    simt::store(&control.mail_began, simt::cycles());
}

// For the next launch. One thread does it.
ARCBEAM_DEVICE void close_mail(const RescoringParams& params, const RescoringControl& control) {
    const Mail mail = mail_of(control);
    simt::store(&mail.head()->used, simt::load(&control.mail_used));
    simt::store(&mail.head()->open, simt::load(&control.mail_open));
    simt::atomic_add<Scope::device>(&params.counters->worked, simt::cycles() - simt::load(&control.mail_began));
}

struct Claimed {
    std::uint32_t place;  // kNoIndex: the table is full
    bool is_new;          // the caller has to ask
};

ARCBEAM_DEVICE std::uint64_t answer_key(std::uint32_t state, std::uint32_t label) {
    return static_cast<std::uint64_t>(state) << 32U | label;
}

ARCBEAM_DEVICE std::uint32_t answer_home(const Mail& mail, std::uint32_t state, std::uint32_t label) {
    const std::uint32_t mixed = (state * 0x9e3779b1U ^ label) * 0x85ebca6bU;
    return scaled((mixed ^ mixed >> 15U) * 0xc2b2ae35U, mail.size);
}

ARCBEAM_DEVICE Claimed claim_answer(const Mail& mail, std::uint32_t state, std::uint32_t label,
                                    RescoringControl& control) {
    const std::uint64_t key = answer_key(state, label);
    std::uint32_t place = answer_home(mail, state, label);
    for (std::uint32_t probes = 0U; probes < mail.size; ++probes) {
        std::uint64_t found = simt::load_relaxed<Scope::block>(mail.keys().at(place));
        if (found == kNoQuestion) {
            if (simt::load_relaxed<Scope::block>(&control.mail_used) >= mail.size / 4U * 3U) {
                break;
            }
            found = simt::atomic_cas<Scope::block>(mail.keys().at(place), kNoQuestion, key);
            if (found == kNoQuestion) {
                simt::atomic_add<Scope::block>(&control.mail_used, 1U);
                return {place, true};
            }
        }
        if (found == key) {
            return {place, false};
        }
        place = place + 1U == mail.size ? 0U : place + 1U;
    }
    simt::store_relaxed<Scope::block>(&control.mail_full, 1U);
    return {kNoIndex, false};
}

// Finds the answer of what has been claimed; false if it is not there. Others may claim and enter at the same time.
ARCBEAM_DEVICE bool find_answer(const Mail& mail, std::uint32_t state, std::uint32_t label, Answer& answer) {
    const std::uint64_t key = answer_key(state, label);
    std::uint32_t place = answer_home(mail, state, label);
    for (std::uint32_t probes = 0U; probes < mail.size; ++probes) {
        const std::uint64_t found = simt::load_relaxed<Scope::block>(mail.keys().at(place));
        if (found == key) {
            const std::uint64_t bits =
                simt::load_relaxed<Scope::block>(reinterpret_cast<std::uint64_t*>(mail.answers().at(place)));
            std::memcpy(&answer, &bits, sizeof answer);
            return answer.next_state != kUnanswered;
        }
        if (found == kNoQuestion) {
            return false;
        }
        place = place + 1U == mail.size ? 0U : place + 1U;
    }
    return false;
}

// Enters an answer that is known, in a place that the caller has claimed.
ARCBEAM_DEVICE void enter_answer(const Mail& mail, std::uint32_t place, const Answer& answer) {
    std::uint64_t bits;
    std::memcpy(&bits, &answer, sizeof bits);
    simt::store_relaxed<Scope::block>(reinterpret_cast<std::uint64_t*>(mail.answers().at(place)), bits);
}

// Lists a question whose place the caller has claimed.
ARCBEAM_DEVICE void list_question(const Mail& mail, std::uint32_t place, const Question& question,
                                  RescoringControl& control) {
    const std::uint32_t at = simt::atomic_add<Scope::block>(&control.num_questions, 1U);
    mail.questions()[at] = question;
    mail.places()[at] = place;
}

// Between two frames: empties the table once it is half full. Barriers are passed.
ARCBEAM_DEVICE void make_room_in_mail(RescoringControl& control) {
    const Mail mail = mail_of(control);
    const std::uint32_t used = simt::load(&control.mail_used);
    simt::block_barrier();
    if (used <= mail.size / 2U) {
        return;
    }
    if (simt::thread_rank() == 0U) {
        simt::store(&control.mail_used, 0U);
    }
    for (std::uint32_t i = simt::thread_rank(); i < mail.size; i += simt::block_size()) {
        mail.keys()[i] = kNoQuestion;
        mail.answers()[i] = Answer{0.0F, kUnanswered};
    }
    simt::block_barrier();
}

// Waits for the answers of the round, so many, and takes them into the table; false if they do not come. All
// threads come here behind a barrier; others are passed.
ARCBEAM_DEVICE bool take_answers(const RescoringParams& params, std::uint32_t posted, RescoringControl& control) {
    const Mail mail = mail_of(control);
    if (simt::thread_rank() == 0U) {
        const std::uint64_t began = simt::cycles();
        const std::uint32_t round = simt::load(&control.mail_round);
        const std::uint64_t wanted = static_cast<std::uint64_t>(round) << 32U | posted;
        bool came;
        if constexpr (kAsked != Asks::arcs) {
            came = wait_for_mapped(mail.head(), wanted, params.search.wait_cycles);
        } else {
            const std::uint32_t first =
                wait_for_copied(mail.inbox, simt::load(&control.mail_seat), round, params.search.wait_cycles);
            came = first != kNotCome;
            simt::store(&control.mail_first, first);
            if (!came) {
                leave_copied(mail.head(), wanted);
            }
        }
        simt::atomic_add<Scope::device>(&params.counters->waited, simt::cycles() - began);
        simt::store(&control.num_answers, came ? posted : kNoIndex);
    }
    simt::block_barrier();
    const std::uint32_t count = simt::load(&control.num_answers);
    const std::uint32_t first = simt::load(&control.mail_first);
    if (simt::thread_rank() == 0U) {
        simt::store(&control.mail_open, count == kNoIndex ? 1U : 0U);
    }
    if (count == kNoIndex) {
        return false;
    }
    if constexpr (kAsked == Asks::model) {
        simt::fence<Scope::system>();  // whoever finds a number in the cache may read its words; see precedes()
    }
    for (std::uint32_t i = simt::thread_rank(); i < count; i += simt::block_size()) {
        const std::uint32_t place = mail.places()[i];
        Answer answer;
        if constexpr (kAsked != Asks::arcs) {
            answer = mail.replies()[i];
        } else {
            answer = copied_answer(mail.inbox, first + i);
        }
        mail.answers()[place] = answer;
        if (params.cache.size != 0U) {
            const std::uint64_t key = mail.keys()[place];
            const auto state = static_cast<std::uint32_t>(key >> 32U);
            const auto label = static_cast<std::uint32_t>(key);
            if constexpr (kAsked == Asks::arcs) {
                keep_single(params.cache, Single{state, label}, answer);
            } else {
                keep_cached(params.cache, params.counters, state, label,
                            LmStep{answer.cost, answer.next_state, 0U});
            }
        }
    }
    simt::block_barrier();
    if (kAsked == Asks::arcs && simt::thread_rank() == 0U) {
        const std::uint64_t round = simt::load(&control.mail_round);
        leave_copied(mail.head(), round << 32U | posted);
    }
    return true;
}

// The same for a round that the launch before has posted.
ARCBEAM_DEVICE bool take_late_answers(const RescoringParams& params, RescoringControl& control) {
    return take_answers(params, static_cast<std::uint32_t>(simt::load(&mail_of(control).head()->posted)), control);
}

// Sends what has been listed; says whether all is answered, and whether there was anything to send. Without an
// answer, or without room to list a question, the frame has to be given up, and the lane to stop. All threads come
// here; barriers are passed, the first before anything else.
struct Sent {
    bool answered;
    bool any;
};

ARCBEAM_DEVICE Sent send_questions(const RescoringParams& params, RescoringControl& control) {
    simt::block_barrier();
    const std::uint32_t count = simt::load(&control.num_questions);
    const bool is_full = simt::load(&control.mail_full) != 0U;
    simt::block_barrier();
    if (is_full || count == 0U) {
        return {!is_full, false};
    }
    if (simt::thread_rank() == 0U) {
        const std::uint32_t round = simt::load(&control.mail_round) + 1U;
        simt::store(&control.mail_round, round);
        simt::store(&control.num_questions, 0U);
        simt::store_release<Scope::system>(&mail_of(control).head()->posted,
                                           static_cast<std::uint64_t>(round) << 32U | count);
    }
    return {take_answers(params, count, control), true};
}

}  // namespace arcbeam
