// A group of threads of a warp that look a word up together.
#pragma once

#include "shared/simt.cuh"

namespace arcbeam {

// A group of so many threads within those of a mask. All threads of the mask call its functions together: if groups
// had masks of their own, the warp would run them one after the other.
template <std::uint32_t lanes>
struct Lanes {
    std::uint32_t mask;

    ARCBEAM_DEVICE static std::uint32_t rank() { return simt::warp_thread() % lanes; }
    ARCBEAM_DEVICE static std::uint32_t group() { return ((1U << lanes) - 1U) << (simt::warp_thread() - rank()); }
    ARCBEAM_DEVICE bool any_group(bool vote) const { return lanes == 1U ? vote : simt::any(mask, vote); }
    ARCBEAM_DEVICE std::uint32_t votes(bool vote) const {
        if constexpr (lanes == 1U) {
            return vote ? 1U : 0U;
        } else {
            return simt::ballot(mask, vote) & group();
        }
    }
    ARCBEAM_DEVICE std::uint32_t most(std::uint32_t value) const {
        return lanes == 1U ? value : simt::reduce_max(mask, value);
    }
    template <class T>
    ARCBEAM_DEVICE T from(T value, std::uint32_t of_rank) const {
        if constexpr (lanes == 1U) {
            return value;
        } else {
            return simt::shuffle(mask, value, simt::warp_thread() - rank() + of_rank);
        }
    }
};

}  // namespace arcbeam
