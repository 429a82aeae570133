// CUDA bodies: asynchronous copies from global to shared memory. Use through shared/simt.cuh.
#pragma once

namespace arcbeam::simt {

// Starts to copy 4, 8 or 16 bytes. This thread may read them after copy_wait, other threads after a barrier that
// follows.
template <std::uint32_t bytes>
ARCBEAM_DEVICE void copy_async(void* shared, const void* global) {
    static_assert(bytes == 4U || bytes == 8U || bytes == 16U, "4, 8 or 16 bytes");
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    const std::size_t from = __cvta_generic_to_global(global);
    if constexpr (bytes == 16U) {  // bypasses L1, because the data is not read there again
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes) : "memory");
    }
}

// Closes a group of this thread's copies.
ARCBEAM_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most the last `groups` groups of this thread are unfinished.
template <std::uint32_t groups>
ARCBEAM_DEVICE void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

}  // namespace arcbeam::simt
