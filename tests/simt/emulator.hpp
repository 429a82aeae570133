// The emulator's bodies of the wrappers in shared/simt.cuh, with the same names and rules. A wrapper tells the
// machine (runtime.hpp) what it does and where; the machine schedules and checks, then the wrapper does it.
#pragma once

#include "runtime.hpp"

#if defined(__FAST_MATH__)
#error "costs are compared as bytes: no fast math"
#endif

#define ARCBEAM_DEVICE inline
#define ARCBEAM_DEVICE_NOINLINE inline

#define ARCBEAM_KERNEL(name, max_threads, Params)                                               \
    static void name(const Params& params);                                                     \
    static const ::arcbeam::emulator::Registration name##_registration{                         \
        #name, max_threads, sizeof(Params), [](const void* params_) {                           \
            const Params copy = *static_cast<const Params*>(params_); /* each thread its own */ \
            name(copy);                                                                         \
        }};                                                                                     \
    static void name([[maybe_unused]] const Params& params)
#define ARCBEAM_KERNEL_OCCUPANCY(name, max_threads, min_blocks, Params) ARCBEAM_KERNEL(name, max_threads, Params)

// Every wrapper knows the line that calls it.
#define ARCBEAM_SITE ::arcbeam::emulator::Site site = ::arcbeam::emulator::Site::here()

namespace arcbeam::simt {

using emulator::Access;
using emulator::Together;
using emulator::Vote;

inline std::uint32_t thread_rank() { return emulator::position.thread; }
inline std::uint32_t block_size() { return emulator::position.block_size; }
inline std::uint32_t block_rank() { return emulator::position.block; }
inline std::uint32_t grid_size() { return emulator::position.grid_size; }
inline std::uint32_t warp_thread() { return thread_rank() % kWarpSize; }
inline std::uint32_t warp() { return thread_rank() / kWarpSize; }
inline std::uint32_t num_warps() { return (block_size() + kWarpSize - 1U) / kWarpSize; }

inline void block_barrier(ARCBEAM_SITE) { emulator::block_barrier(Vote::none, false, site); }
inline std::uint32_t block_barrier_count(bool vote, ARCBEAM_SITE) {
    return emulator::block_barrier(Vote::count, vote, site);
}
inline bool block_barrier_or(bool vote, ARCBEAM_SITE) {
    return emulator::block_barrier(Vote::any, vote, site) != 0U;
}
inline bool block_barrier_and(bool vote, ARCBEAM_SITE) {
    return emulator::block_barrier(Vote::all, vote, site) != 0U;
}
inline void named_barrier(std::uint32_t id, std::uint32_t threads, ARCBEAM_SITE) {
    emulator::named_barrier(id, threads, true, site);
}
inline void named_barrier_arrive(std::uint32_t id, std::uint32_t threads, ARCBEAM_SITE) {
    emulator::named_barrier(id, threads, false, site);
}

inline void nanosleep(std::uint32_t /*nanoseconds*/, ARCBEAM_SITE) { emulator::sleep(site); }
inline std::uint64_t cycles(ARCBEAM_SITE) { return emulator::cycles(site); }
inline unsigned char* shared_memory() { return emulator::position.shared; }
inline std::uint32_t shared_memory_bytes() { return emulator::position.shared_bytes; }

inline std::uint32_t popcount(std::uint32_t bits) { return static_cast<std::uint32_t>(__builtin_popcount(bits)); }
inline std::uint32_t popcount(std::uint64_t bits) { return static_cast<std::uint32_t>(__builtin_popcountll(bits)); }
inline std::uint32_t leading_zeros(std::uint32_t bits) {
    return bits == 0U ? 32U : static_cast<std::uint32_t>(__builtin_clz(bits));
}
inline std::uint32_t leading_zeros(std::uint64_t bits) {
    return bits == 0U ? 64U : static_cast<std::uint32_t>(__builtin_clzll(bits));
}
inline std::uint32_t lowest_bit(std::uint32_t bits) {
    return static_cast<std::uint32_t>(__builtin_ffs(static_cast<int>(bits))) - 1U;
}
inline std::uint32_t lowest_bit(std::uint64_t bits) {
    return static_cast<std::uint32_t>(__builtin_ffsll(static_cast<long long>(bits))) - 1U;
}

// ---- warps

namespace detail {

template <class T>
std::uint64_t to_bits(T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "4 or 8 bytes");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}
template <class T>
T from_bits(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
template <class T>
T take_from(std::uint32_t mask, T value, std::uint32_t source, emulator::Site site) {
    return from_bits<T>(emulator::warp_operation(Together::shuffle, mask, to_bits(value), source, site));
}
inline std::uint32_t together(Together what, std::uint32_t mask, std::uint32_t value, emulator::Site site) {
    return static_cast<std::uint32_t>(emulator::warp_operation(what, mask, value, 0U, site));
}

}  // namespace detail

inline void warp_sync(std::uint32_t mask, ARCBEAM_SITE) { detail::together(Together::sync, mask, 0U, site); }
inline std::uint32_t warp_mask() {
    const std::uint32_t lanes = block_size() - warp() * kWarpSize;
    return lanes >= kWarpSize ? kAllThreads : (1U << lanes) - 1U;
}
// Lanes may always turn out to run alone, so here they do.
inline std::uint32_t converged_mask() { return 1U << warp_thread(); }

template <class T>
T shuffle(std::uint32_t mask, T value, std::uint32_t source_lane, ARCBEAM_SITE) {
    return detail::take_from(mask, value, source_lane % kWarpSize, site);
}
template <class T>
T shuffle_up(std::uint32_t mask, T value, std::uint32_t delta, ARCBEAM_SITE) {
    return detail::take_from(mask, value, delta > warp_thread() ? warp_thread() : warp_thread() - delta, site);
}
template <class T>
T shuffle_down(std::uint32_t mask, T value, std::uint32_t delta, ARCBEAM_SITE) {
    return detail::take_from(mask, value,
                             warp_thread() + delta >= kWarpSize ? warp_thread() : warp_thread() + delta, site);
}
template <class T>
T shuffle_xor(std::uint32_t mask, T value, std::uint32_t flip, ARCBEAM_SITE) {
    return detail::take_from(mask, value, (warp_thread() ^ flip) % kWarpSize, site);
}

inline std::uint32_t ballot(std::uint32_t mask, bool vote, ARCBEAM_SITE) {
    return detail::together(Together::ballot, mask, vote ? 1U : 0U, site);
}
inline bool any(std::uint32_t mask, bool vote, ARCBEAM_SITE) {
    return detail::together(Together::any, mask, vote ? 1U : 0U, site) != 0U;
}
inline bool all(std::uint32_t mask, bool vote, ARCBEAM_SITE) {
    return detail::together(Together::all, mask, vote ? 1U : 0U, site) != 0U;
}
template <class T>
std::uint32_t match_any(std::uint32_t mask, T value, ARCBEAM_SITE) {
    return static_cast<std::uint32_t>(
        emulator::warp_operation(Together::match, mask, detail::to_bits(value), 0U, site));
}
inline std::uint32_t reduce_min(std::uint32_t mask, std::uint32_t value, ARCBEAM_SITE) {
    return detail::together(Together::min, mask, value, site);
}
inline std::uint32_t reduce_max(std::uint32_t mask, std::uint32_t value, ARCBEAM_SITE) {
    return detail::together(Together::max, mask, value, site);
}
inline std::uint32_t reduce_add(std::uint32_t mask, std::uint32_t value, ARCBEAM_SITE) {
    return detail::together(Together::add, mask, value, site);
}
inline std::uint32_t reduce_or(std::uint32_t mask, std::uint32_t value, ARCBEAM_SITE) {
    return detail::together(Together::bit_or, mask, value, site);
}

inline void multiply_bfloat16(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                              ARCBEAM_SITE) {
    emulator::Fragments mine;
    std::memcpy(mine.a, a, sizeof a);
    std::memcpy(mine.b, b, sizeof b);
    std::memcpy(mine.sum, sum, sizeof sum);
    emulator::Fragments* const held = &mine;
    emulator::warp_operation(Together::multiply, kAllThreads, detail::to_bits(held), 0U, site);
    std::memcpy(sum, mine.sum, sizeof sum);
}

}  // namespace arcbeam::simt

#include "emulator_memory.hpp"
