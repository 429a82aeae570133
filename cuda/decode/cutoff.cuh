// Stage cutoff: which tokens may leave in this frame. The rule is the twin's, cpu_reference/decode/cutoff.hpp.
//
// in   tokens[n] (the best has cost 0), beam, max_active (0: no limit), histogram[256] in shared memory
// out  the largest cost that may leave, the same in every thread
//
// The max_active-th smallest cost is found by radix selection on ordered(): four digits of eight bits.
#pragma once

#include "decode/workspace.cuh"

namespace arcbeam {

ARCBEAM_DEVICE float cutoff(const Array<Token>& tokens, std::uint32_t n, float beam, std::uint32_t max_active,
                            const Array<std::uint32_t>& histogram, Control& control) {
    const float bound = beam_bound(0.0F, beam);
    if (max_active == 0U || n <= max_active) {
        return bound;
    }
    const std::uint32_t thread = simt::thread_rank();
    if (thread == 0U) {
        simt::store(&control.selected, 0U);
        simt::store(&control.rank, max_active - 1U);
    }
    for (std::uint32_t shift = 32U; shift > 0U;) {
        shift -= 8U;
        for (std::uint32_t bin = thread; bin < 256U; bin += simt::block_size()) {
            histogram[bin] = 0U;
        }
        simt::block_barrier();
        const std::uint32_t selected = simt::load(&control.selected);
        const std::uint32_t known = shift == 24U ? 0U : 0xffffffffU << (shift + 8U);
        for (std::uint32_t i = thread; i < n; i += simt::block_size()) {
            const std::uint32_t key = ordered(simt::load(&tokens.at(i)->cost));
            if ((key & known) == selected) {
                simt::atomic_add<Scope::block>(histogram.at(key >> shift & 0xffU), 1U);
            }
        }
        simt::block_barrier();
        if (thread == 0U) {
            std::uint32_t rank = simt::load(&control.rank);
            std::uint32_t bin = 0U;
            while (rank >= histogram[bin]) {
                rank -= histogram[bin++];
            }
            simt::store(&control.rank, rank);
            simt::store(&control.selected, selected | bin << shift);
        }
        simt::block_barrier();
    }
    const float nth = from_ordered(simt::load(&control.selected));
    return nth < bound ? nth : bound;
}

}  // namespace arcbeam
