// CUDA bodies: blocks of one cluster. Use through shared/simt.cuh.
#pragma once

// Before 9.0 there are no clusters, and a launch makes none: each block is its own cluster.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define ARCBEAM_HAS_CLUSTERS 1
#else
#define ARCBEAM_HAS_CLUSTERS 0
#endif

namespace arcbeam::simt {

ARCBEAM_DEVICE std::uint32_t cluster_rank() {
    std::uint32_t rank = 0U;
#if ARCBEAM_HAS_CLUSTERS
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

ARCBEAM_DEVICE std::uint32_t cluster_size() {
    std::uint32_t size = 1U;
#if ARCBEAM_HAS_CLUSTERS
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
    return size;
}

// Every thread of every block of the cluster arrives (releasing what it wrote) and then waits (acquiring).
ARCBEAM_DEVICE void cluster_barrier_arrive() {
#if ARCBEAM_HAS_CLUSTERS
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
ARCBEAM_DEVICE void cluster_barrier_wait() {
#if ARCBEAM_HAS_CLUSTERS
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
    __syncthreads();
#endif
}
ARCBEAM_DEVICE void cluster_barrier() {
    cluster_barrier_arrive();
    cluster_barrier_wait();
}

// The same place in the shared memory of another block of the cluster. That block must have started (one
// cluster_barrier ensures it) and must not end before the last access (another one).
template <class T>
ARCBEAM_DEVICE T* map_shared(T* address, std::uint32_t rank) {
#if ARCBEAM_HAS_CLUSTERS
    std::uint64_t mapped;
    asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(address), "r"(rank));
    return reinterpret_cast<T*>(mapped);
#else
    (void)rank;
    return address;
#endif
}

}  // namespace arcbeam::simt
