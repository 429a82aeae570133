// Answers that copies bring to the device, for lanes that request arcs (Fukunaga et al. 2019). A batch of answers
// is a copy of arrivals and answers, followed (as log-probs are, see decode/arrival.cuh) by a copy that counts it.
#pragma once

#include "shared/requests.hpp"
#include "shared/simt.cuh"

namespace arcbeam {

constexpr std::uint32_t kNotCome = 0xffffffffU;

// One thread waits for the answers of the round that has been posted, and returns their place in the answer buffer.
// An arrival may be there before the rest of its batch of answers, so the thread relies on the count of batches. A
// later batch writes the arrival again with the same value, because answers that have not been taken keep their
// place.
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

// Batches of answers write these words again and again while the kernel runs, so the load must not be answered by a
// cache of the multiprocessor.
ARCBEAM_DEVICE Answer copied_answer(const unsigned char* answer_buffer, std::uint32_t place) {
    const std::uint64_t bits =
        simt::load_relaxed<simt::Scope::system>(reinterpret_cast<const std::uint64_t*>(answer_buffer) + place);
    Answer answer;
    std::memcpy(&answer, &bits, sizeof answer);
    return answer;
}

// Allows the place of the answers to be used for others. One thread calls this, after a barrier if all threads have
// read the answers.
ARCBEAM_DEVICE void leave_copied(RequestHead* head, std::uint64_t posted) {
    simt::store_release<simt::Scope::system>(&head->taken, posted);
}

}  // namespace arcbeam
