// Kernels that show that a launch arrives: its struct, its clusters, its shared memory, and order among streams.
#include <cstdint>

namespace {

struct Parameters {
    float* values;
    uint32_t count;
    float factor;
};

}  // namespace

// values[i] = values[i] * factor + 1
extern "C" __global__ void scale(Parameters p) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.count) p.values[i] = p.values[i] * p.factor + 1.0f;
}

// values[block] = blocks of its cluster, as the hardware says; 1 without clusters.
extern "C" __global__ void cluster_size(Parameters p) {
    uint32_t size = 1;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
#endif
    if (threadIdx.x == 0 && blockIdx.x < p.count) p.values[blockIdx.x] = static_cast<float>(size);
}

// Writes all of its dynamic shared memory (count words a block), and reads it back from the other end.
extern "C" __global__ void shared_memory(Parameters p) {
    extern __shared__ uint32_t words[];
    for (uint32_t i = threadIdx.x; i < p.count; i += blockDim.x) words[i] = i;
    __syncthreads();
    uint32_t wrong = 0;
    for (uint32_t i = threadIdx.x; i < p.count; i += blockDim.x) wrong += words[p.count - 1 - i] != p.count - 1 - i;
    if (wrong == 0) atomicAdd(p.values, 1.0f);
}

// Takes `count` microseconds, at most a second, and writes factor.
extern "C" __global__ void slow(Parameters p) {
    uint64_t start = 0, now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    for (uint32_t look = 0; look < 10000000; ++look) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (now - start > uint64_t{p.count < 1000000 ? p.count : 1000000} * 1000) break;
    }
    *p.values = p.factor;
}
