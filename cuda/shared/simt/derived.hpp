// Functions on top of the wrappers, the same for CUDA and the emulator. Use through shared/simt.cuh.
#pragma once

namespace arcbeam::simt {

// The threads of the warp before this one.
ARCBEAM_DEVICE std::uint32_t threads_below() { return (1U << warp_thread()) - 1U; }

// Whether this is the one thread of the mask that acts for all: the lowest.
ARCBEAM_DEVICE bool is_leader(std::uint32_t mask) { return lowest_bit(mask) == warp_thread(); }

// This thread's place among the threads of the mask.
ARCBEAM_DEVICE std::uint32_t place_in(std::uint32_t mask) { return popcount(mask & threads_below()); }

// Takes two 32-bit steps: the smallest upper half, then the smallest lower half among those that have it.
ARCBEAM_DEVICE std::uint64_t reduce_min(std::uint32_t mask, std::uint64_t value) {
    const auto upper = static_cast<std::uint32_t>(value >> 32U);
    const std::uint32_t least_upper = reduce_min(mask, upper);
    const std::uint32_t lower = upper == least_upper ? static_cast<std::uint32_t>(value) : 0xffffffffU;
    return static_cast<std::uint64_t>(least_upper) << 32U | reduce_min(mask, lower);
}

// A spin that gives up: `while (!done()) if (!backoff.wait()) return give_up;`. Sleeps longer each time.
struct Backoff {
    std::uint64_t limit;  // clock cycles; under the emulator, scheduling points
    std::uint64_t start = 0;
    std::uint32_t nanoseconds = 16;

    ARCBEAM_DEVICE bool wait() {
        const std::uint64_t now = cycles();
        if (start == 0) start = now | 1U;
        if (now - start > limit && now > start) return false;
        nanosleep(nanoseconds);
        if (nanoseconds < 1024U) nanoseconds *= 2U;
        return true;
    }
};

// Records an error code. Of several codes the largest stays, whatever the schedule. 0 means no error.
ARCBEAM_DEVICE void report_status(std::uint32_t* status, std::uint32_t code) {
    atomic_max<Scope::device>(status, code);
}

// The shared memory that `bytes` take when several arrays are carved from it; the host adds these up.
ARCBEAM_HD constexpr std::uint32_t carved_bytes(std::uint32_t bytes) { return (bytes + 15U) / 16U * 16U; }

// Hands out the dynamic shared memory, array by array.
class Carver {
  public:
    ARCBEAM_DEVICE Carver() : next_(shared_memory()) {}

    template <class T>
    ARCBEAM_DEVICE Array<T> take(std::uint32_t count) {
        auto* const data = reinterpret_cast<T*>(next_);
        next_ += carved_bytes(count * static_cast<std::uint32_t>(sizeof(T)));
        return Array<T>{data, count};
    }

  private:
    unsigned char* next_;
};

}  // namespace arcbeam::simt
