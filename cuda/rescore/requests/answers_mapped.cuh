// Answers that lanes read over the bus, where the host has written them. This is for lanes whose requests KenLM
// answers.
#pragma once

#include "shared/requests.hpp"
#include "shared/simt.cuh"

namespace arcbeam {

// One thread waits for the answers of the round that has been posted. Each load of the head crosses the bus.
ARCBEAM_DEVICE bool wait_for_mapped(const RequestHead* head, std::uint64_t posted, std::uint32_t wait_cycles) {
    simt::Backoff backoff{wait_cycles};
    while (simt::load_relaxed<simt::Scope::system>(&head->answered) != posted) {
        if (!backoff.wait()) {
            return false;
        }
    }
    simt::fence<simt::Scope::system>();
    return true;
}

}  // namespace arcbeam
