// Answers that copies bring to the device: of lanes that ask for arcs (Fukunaga et al. 2019). a batch of answers is
// a copy of arrivals and answers, and behind it, as behind log-probs, a copy that counts it (decode/arrival.cuh).
#pragma once

#include "shared/requests.hpp"
#include "shared/simt.cuh"

namespace arcbeam {

constexpr std::uint32_t kNotCome = 0xffffffffU;

// One thread waits for the answers of the round that has been posted; gives their place in the answer buffer. An
// arrival may be there before the rest of its batch of answers, so what counts is the count; a later batch of
// answers writes it again, the same, for none takes the place of answers that have not been taken.
ARCBEAM_DEVICE std::uint32_t wait_for_copied(const unsigned char* answer_buffer, std::uint32_t slot,
                                             std::uint32_t round, std::uint32_t wait_cycles) {
    const auto* const come = reinterpret_cast<const std::uint32_t*>(answer_buffer);
    const unsigned char* const arrival = answer_buffer + answer_buffer_start_bytes(slot);
    const auto* const tag = reinterpret_cast<const std::uint64_t*>(arrival);
    simt::Backoff backoff{wait_cycles};
    for (;;) {
        const std::uint64_t found = simt::load_relaxed<simt::Scope::system>(tag);
        const auto answer_batch = static_cast<std::uint32_t>(found >> 32U);
        if (static_cast<std::uint32_t>(found) == round && answer_batch != 0U &&
            simt::load_relaxed<simt::Scope::system>(come) - answer_batch < 0x80000000U) {
            simt::fence<simt::Scope::system>();
            return simt::load_relaxed<simt::Scope::system>(&reinterpret_cast<const Arrival*>(arrival)->first);
        }
        if (!backoff.wait()) {
            return kNotCome;
        }
    }
}

// Batches of answers write these words again and again while the kernel runs: no cache of a multiprocessor may
// answer.
ARCBEAM_DEVICE Answer copied_answer(const unsigned char* answer_buffer, std::uint32_t place) {
    const std::uint64_t bits =
        simt::load_relaxed<simt::Scope::system>(reinterpret_cast<const std::uint64_t*>(answer_buffer) + place);
    Answer answer;
    std::memcpy(&answer, &bits, sizeof answer);
    return answer;
}

// The place of the answers may be taken by others. One thread says so, behind a barrier if all have read.
ARCBEAM_DEVICE void leave_copied(RequestHead* head, std::uint64_t posted) {
    simt::store_release<simt::Scope::system>(&head->taken, posted);
}

}  // namespace arcbeam
