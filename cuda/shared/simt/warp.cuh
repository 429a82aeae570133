// CUDA bodies: operations that the threads of a warp do together. Use through shared/simt.cuh.
#pragma once

namespace arcbeam::simt {

// Waits for the threads of the mask and orders their memory accesses.
ARCBEAM_DEVICE void warp_sync(std::uint32_t mask) { __syncwarp(mask); }

// All threads of this warp that exist: fewer than 32 in the last warp of a block whose size is no multiple of 32.
ARCBEAM_DEVICE std::uint32_t warp_mask() {
    const std::uint32_t lanes = block_size() - warp() * kWarpSize;
    return lanes >= kWarpSize ? kAllThreads : (1U << lanes) - 1U;
}

// Threads that happen to run this instruction together: a hint for aggregation, never a fact about the program.
ARCBEAM_DEVICE std::uint32_t converged_mask() { return __activemask(); }

// For values of 4 or 8 bytes. The value of a thread that the mask does not name is undefined.
template <class T>
ARCBEAM_DEVICE T shuffle(std::uint32_t mask, T value, std::uint32_t source_lane) {
    return __shfl_sync(mask, value, static_cast<int>(source_lane));
}
template <class T>
ARCBEAM_DEVICE T shuffle_up(std::uint32_t mask, T value, std::uint32_t delta) {
    return __shfl_up_sync(mask, value, delta);
}
template <class T>
ARCBEAM_DEVICE T shuffle_down(std::uint32_t mask, T value, std::uint32_t delta) {
    return __shfl_down_sync(mask, value, delta);
}
template <class T>
ARCBEAM_DEVICE T shuffle_xor(std::uint32_t mask, T value, std::uint32_t flip) {
    return __shfl_xor_sync(mask, value, static_cast<int>(flip));
}

ARCBEAM_DEVICE std::uint32_t ballot(std::uint32_t mask, bool vote) { return __ballot_sync(mask, vote ? 1 : 0); }
ARCBEAM_DEVICE bool any(std::uint32_t mask, bool vote) { return __any_sync(mask, vote ? 1 : 0) != 0; }
ARCBEAM_DEVICE bool all(std::uint32_t mask, bool vote) { return __all_sync(mask, vote ? 1 : 0) != 0; }

// The threads whose value equals this thread's.
template <class T>
ARCBEAM_DEVICE std::uint32_t match_any(std::uint32_t mask, T value) {
    return __match_any_sync(mask, value);
}

ARCBEAM_DEVICE std::uint32_t reduce_min(std::uint32_t mask, std::uint32_t value) {
    return __reduce_min_sync(mask, value);
}
ARCBEAM_DEVICE std::uint32_t reduce_max(std::uint32_t mask, std::uint32_t value) {
    return __reduce_max_sync(mask, value);
}
ARCBEAM_DEVICE std::uint32_t reduce_add(std::uint32_t mask, std::uint32_t value) {
    return __reduce_add_sync(mask, value);
}
ARCBEAM_DEVICE std::uint32_t reduce_or(std::uint32_t mask, std::uint32_t value) {
    return __reduce_or_sync(mask, value);
}

}  // namespace arcbeam::simt
