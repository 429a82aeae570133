// CUDA bodies: kernel entries, ids, barriers of a block, clocks. Use through shared/simt.cuh.
#pragma once

// ARCBEAM_KERNEL(name, max_threads, Params) { ... params ... }: Params is one plain struct, passed by value.
#define ARCBEAM_KERNEL(name, max_threads, Params) \
    extern "C" __global__ void __launch_bounds__(max_threads) name(const __grid_constant__ Params params)

// The same with the least number of blocks that must fit one multiprocessor, which limits the registers.
#define ARCBEAM_KERNEL_OCCUPANCY(name, max_threads, min_blocks, Params)   \
    extern "C" __global__ void __launch_bounds__(max_threads, min_blocks) \
        name(const __grid_constant__ Params params)

#define ARCBEAM_DEVICE __device__ __forceinline__
#define ARCBEAM_DEVICE_NOINLINE __device__ __noinline__

namespace arcbeam::simt {

ARCBEAM_DEVICE std::uint32_t thread_rank() { return threadIdx.x; }
ARCBEAM_DEVICE std::uint32_t block_size() { return blockDim.x; }
ARCBEAM_DEVICE std::uint32_t block_rank() { return blockIdx.x; }
ARCBEAM_DEVICE std::uint32_t grid_size() { return gridDim.x; }
ARCBEAM_DEVICE std::uint32_t warp_thread() { return threadIdx.x & (kWarpSize - 1U); }
ARCBEAM_DEVICE std::uint32_t warp() { return threadIdx.x / kWarpSize; }
ARCBEAM_DEVICE std::uint32_t num_warps() { return (blockDim.x + kWarpSize - 1U) / kWarpSize; }

ARCBEAM_DEVICE void block_barrier() { __syncthreads(); }
ARCBEAM_DEVICE std::uint32_t block_barrier_count(bool vote) {
    return static_cast<std::uint32_t>(__syncthreads_count(vote ? 1 : 0));
}
ARCBEAM_DEVICE bool block_barrier_or(bool vote) { return __syncthreads_or(vote ? 1 : 0) != 0; }
ARCBEAM_DEVICE bool block_barrier_and(bool vote) { return __syncthreads_and(vote ? 1 : 0) != 0; }

// A barrier of `threads` threads (whole warps) of the block; the id is 1 to 15, because 0 is the block's own.
ARCBEAM_DEVICE void named_barrier(std::uint32_t id, std::uint32_t threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts towards the barrier without waiting, as a producer does.
ARCBEAM_DEVICE void named_barrier_arrive(std::uint32_t id, std::uint32_t threads) {
    asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

ARCBEAM_DEVICE void nanosleep(std::uint32_t nanoseconds) { __nanosleep(nanoseconds); }

// Clock cycles of this multiprocessor, for bounded spins; under the emulator: scheduling points so far.
ARCBEAM_DEVICE std::uint64_t cycles() { return static_cast<std::uint64_t>(clock64()); }

// Base of the block's dynamic shared memory, 128-byte aligned, and its bytes.
ARCBEAM_DEVICE unsigned char* shared_memory() {
    extern __shared__ __align__(128) unsigned char arcbeam_shared_memory[];
    return arcbeam_shared_memory;
}
ARCBEAM_DEVICE std::uint32_t shared_memory_bytes() {
    std::uint32_t bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}

ARCBEAM_DEVICE std::uint32_t popcount(std::uint32_t bits) { return static_cast<std::uint32_t>(__popc(bits)); }
ARCBEAM_DEVICE std::uint32_t popcount(std::uint64_t bits) { return static_cast<std::uint32_t>(__popcll(bits)); }
// 32 or 64 if no bit is set.
ARCBEAM_DEVICE std::uint32_t leading_zeros(std::uint32_t bits) {
    return static_cast<std::uint32_t>(__clz(static_cast<int>(bits)));
}
ARCBEAM_DEVICE std::uint32_t leading_zeros(std::uint64_t bits) {
    return static_cast<std::uint32_t>(__clzll(static_cast<long long>(bits)));
}
// Position of the lowest set bit; at least one bit must be set.
ARCBEAM_DEVICE std::uint32_t lowest_bit(std::uint32_t bits) {
    return static_cast<std::uint32_t>(__ffs(static_cast<int>(bits))) - 1U;
}
ARCBEAM_DEVICE std::uint32_t lowest_bit(std::uint64_t bits) {
    return static_cast<std::uint32_t>(__ffsll(static_cast<long long>(bits))) - 1U;
}

}  // namespace arcbeam::simt
