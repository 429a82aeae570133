// The threads that work on a frame: the block that owns the lane, or all blocks of its cluster; or a warp of the
// block. A stage is written for a Team, which defines how many threads share its loops, how far an atomic must
// reach, and which barrier to take.
#pragma once

#include "shared/simt.cuh"

namespace arcbeam {

struct BlockTeam {
    static constexpr simt::Scope kScope = simt::Scope::block;

    ARCBEAM_DEVICE static std::uint32_t rank() { return simt::thread_rank(); }
    ARCBEAM_DEVICE static std::uint32_t size() { return simt::block_size(); }
    ARCBEAM_DEVICE static void barrier() { simt::block_barrier(); }
    ARCBEAM_DEVICE static bool barrier_or(bool vote) { return simt::block_barrier_or(vote); }
    ARCBEAM_DEVICE static bool owns_lane() { return true; }
};

// One warp, for what is small.
struct WarpTeam {
    static constexpr simt::Scope kScope = simt::Scope::block;

    ARCBEAM_DEVICE static std::uint32_t rank() { return simt::warp_thread(); }
    ARCBEAM_DEVICE static std::uint32_t size() { return simt::kWarpSize; }
    ARCBEAM_DEVICE static bool barrier_or(bool vote) {
        simt::warp_sync(simt::kAllThreads);
        return simt::any(simt::kAllThreads, vote);
    }
};

// The block of rank 0 owns the lane; what the team shares lies in its shared memory or in global memory.
struct ClusterTeam {
    static constexpr simt::Scope kScope = simt::Scope::cluster;

    ARCBEAM_DEVICE static std::uint32_t rank() {
        return simt::cluster_rank() * simt::block_size() + simt::thread_rank();
    }
    ARCBEAM_DEVICE static std::uint32_t size() { return simt::cluster_size() * simt::block_size(); }
    ARCBEAM_DEVICE static void barrier() { simt::cluster_barrier(); }
    ARCBEAM_DEVICE static bool owns_lane() { return simt::cluster_rank() == 0U; }
};

}  // namespace arcbeam
