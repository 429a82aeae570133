// Clusters, asynchronous copies, barriers of a part of the block.
#include "shared/simt.cuh"

using namespace arcbeam::simt;

struct ExchangeParams {
    const std::uint32_t* values;  // [grid, block]
    std::uint32_t* out;           // [grid, block]
};

// Every block reads what its cluster's other blocks hold, and adds to a counter in the first one.
ARCBEAM_KERNEL(cluster_exchange, 256, ExchangeParams) {
    Carver carver;
    const Array<std::uint32_t> mine = carver.take<std::uint32_t>(block_size());
    const Array<std::uint32_t> counter = carver.take<std::uint32_t>(1);
    const std::uint32_t place = block_rank() * block_size() + thread_rank();
    mine[thread_rank()] = load_readonly(params.values + place);
    if (thread_rank() == 0U) counter[0] = 0U;
    cluster_barrier();
    std::uint32_t sum = 0;
    for (std::uint32_t rank = 0; rank < cluster_size(); ++rank) {
        sum = sum * 31U + load(map_shared(mine.at(thread_rank()), rank));
    }
    atomic_add<Scope::cluster>(map_shared(counter.at(0), 0U), sum);
    cluster_barrier_arrive();
    sum ^= cluster_rank();
    cluster_barrier_wait();
    store(params.out + place, sum + load(map_shared(counter.at(0), 0U)));
    cluster_barrier();  // the first block must not end before the others have read
}

struct CopyParams {
    const std::uint32_t* values;  // [4, block, 4]
    std::uint32_t* out;           // [block]
};

// Four tiles, one in flight while the other is summed.
ARCBEAM_KERNEL(copy_tiles, 256, CopyParams) {
    Carver carver;
    const Array<std::uint32_t> tiles = carver.take<std::uint32_t>(2U * 4U * block_size());
    const std::uint32_t tile = 4U * block_size();
    const auto fetch = [&](std::uint32_t t) {
        const std::uint32_t at = thread_rank() * 4U;
        copy_async<16>(tiles.at(t % 2U * tile + at), params.values + t * tile + at);
        copy_commit();
    };
    std::uint32_t sum = 0;
    fetch(0U);
    for (std::uint32_t t = 0; t < 4U; ++t) {
        if (t + 1U < 4U) {
            fetch(t + 1U);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        block_barrier();
        for (std::uint32_t i = 0; i < 4U; ++i) {
            sum = sum * 3U + tiles[t % 2U * tile + (thread_rank() + i * block_size())];
        }
        block_barrier();
    }
    store(params.out + thread_rank(), sum);
}

struct PipeParams {
    std::uint32_t* out;  // [rounds, 32]
    std::uint32_t rounds;
};

// The first warp writes, the second reads; two barriers of 64 threads hand the buffer over and back.
ARCBEAM_KERNEL(two_warps, 64, PipeParams) {
    constexpr std::uint32_t kFull = 1;
    constexpr std::uint32_t kEmpty = 2;
    Carver carver;
    const Array<std::uint32_t> buffer = carver.take<std::uint32_t>(kWarpSize);
    for (std::uint32_t round = 0; round < params.rounds; ++round) {
        if (warp() == 0U) {
            named_barrier(kEmpty, 64U);
            buffer[warp_thread()] = round * 100U + warp_thread();
            named_barrier_arrive(kFull, 64U);
        } else {
            named_barrier_arrive(kEmpty, 64U);
            named_barrier(kFull, 64U);
            store(params.out + round * kWarpSize + warp_thread(), buffer[(warp_thread() + 1U) % kWarpSize]);
        }
    }
}
