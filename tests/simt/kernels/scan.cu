// Sums and minima of a block: barriers, shuffles, reductions, 64-bit atomics in shared memory.
#include "shared/simt.cuh"

using namespace arcbeam::simt;

struct ScanParams {
    const std::uint32_t* values;
    std::uint32_t* sums;  // sums[i] is the sum of the values before i
    std::uint32_t count;
};

// Every thread sums its share, a warp scans its threads' sums by shuffles, the first warp scans the warps' sums.
ARCBEAM_KERNEL(prefix_sum, 1024, ScanParams) {
    Carver carver;
    const Array<std::uint32_t> warp_sums = carver.take<std::uint32_t>(kWarpSize);
    const std::uint32_t share = (params.count + block_size() - 1U) / block_size();
    const std::uint32_t begin = thread_rank() * share < params.count ? thread_rank() * share : params.count;
    const std::uint32_t end = begin + share < params.count ? begin + share : params.count;
    std::uint32_t sum = 0;
    for (std::uint32_t i = begin; i < end; ++i) sum += load_readonly(params.values + i);

    const std::uint32_t mask = warp_mask();
    std::uint32_t scanned = sum;
    for (std::uint32_t delta = 1; delta < kWarpSize; delta *= 2U) {
        const std::uint32_t before = shuffle_up(mask, scanned, delta);
        if (warp_thread() >= delta) scanned += before;
    }
    if (warp_thread() + 1U == popcount(mask)) warp_sums[warp()] = scanned;
    block_barrier();
    std::uint32_t of_warps = warp_thread() < warp() ? std::uint32_t{warp_sums[warp_thread()]} : 0U;
    of_warps = reduce_add(mask, of_warps);
    std::uint32_t running = of_warps + scanned - sum;
    for (std::uint32_t i = begin; i < end; ++i) {
        store(params.sums + i, running);
        running += load_readonly(params.values + i);
    }
}

struct ArgminParams {
    const std::uint32_t* costs;
    std::uint64_t* best;  // cost << 32 | position; one a block
    std::uint32_t count;
};

ARCBEAM_KERNEL(argmin, 1024, ArgminParams) {
    Carver carver;
    const Array<std::uint64_t> best = carver.take<std::uint64_t>(2);  // by atomics of all; by one atomic a warp
    for (std::uint32_t i = thread_rank(); i < 2U; i += block_size()) best[i] = ~std::uint64_t{0};
    block_barrier();
    std::uint64_t mine = ~std::uint64_t{0};
    for (std::uint32_t i = thread_rank(); i < params.count; i += block_size()) {
        const std::uint64_t packed = static_cast<std::uint64_t>(load_readonly(params.costs + i)) << 32U | i;
        atomic_min<Scope::block>(best.at(0), packed);
        mine = packed < mine ? packed : mine;
    }
    mine = reduce_min(warp_mask(), mine);
    if (is_leader(warp_mask())) atomic_min<Scope::block>(best.at(1), mine);
    block_barrier();
    if (thread_rank() == 0U) store(params.best + block_rank(), std::uint64_t{best[0]} | std::uint64_t{best[1]});
}

struct WarpParams {
    const std::uint32_t* values;  // [block]
    std::uint32_t* out;           // [12, block]
};

// Every operation of a warp, also on half of it.
ARCBEAM_KERNEL(warp_operations, 1024, WarpParams) {
    const std::uint32_t value = load_readonly(params.values + thread_rank());
    const std::uint32_t all_lanes = warp_mask();
    const bool odd = (value & 1U) != 0U;
    const std::uint32_t odd_lanes = ballot(all_lanes, odd);
    const std::uint32_t mine = odd ? odd_lanes : all_lanes & ~odd_lanes;
    std::uint32_t row = 0;
    const auto put = [&](std::uint32_t result) {
        store(params.out + row++ * block_size() + thread_rank(), result);
    };
    put(odd_lanes);
    put(reduce_min(mine, value));
    put(reduce_max(mine, value));
    put(reduce_add(mine, value));
    put(reduce_or(mine, value));
    put(match_any(all_lanes, value));
    put(any(mine, value == 3U) ? 1U : 0U);
    put(all(mine, value < 7U) ? 1U : 0U);
    put(shuffle(mine, value, lowest_bit(mine)));
    put(place_in(mine));
    put(static_cast<std::uint32_t>(shuffle_xor(all_lanes, static_cast<std::uint64_t>(value) << 32U, 1U) >> 32U));
    put(block_barrier_count(odd));
}
