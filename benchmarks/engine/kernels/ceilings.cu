// What the device can do at most: random reads, dependent reads, atomic minima, barriers. Each answer can be
// checked.
#include "shared/simt.cuh"

namespace arcbeam {

struct alignas(16) Sixteen {
    std::uint32_t next;
    std::uint32_t twice;
    std::uint32_t flipped;
    std::uint32_t one;
};

struct ReadParams {
    Sixteen* table;       // [mask + 1]
    std::uint64_t* sums;  // [threads of the grid]
    std::uint32_t mask;   // entries - 1, a power of two less one
    std::uint32_t steps;
};

struct MinParams {
    std::uint64_t* slots;  // [mask + 1] of the device, or a sum a block
    std::uint32_t mask;
    std::uint32_t steps;
};

// A bijection of 32-bit numbers with no visible pattern.
ARCBEAM_HD std::uint32_t mixed(std::uint32_t x) {
    x ^= x >> 16U;
    x *= 0x7feb352dU;
    x ^= x >> 15U;
    x *= 0x846ca68bU;
    return x ^ x >> 16U;
}

ARCBEAM_DEVICE std::uint32_t global_rank() { return simt::block_rank() * simt::block_size() + simt::thread_rank(); }

// The numbers that a thread draws: step by step, each unlike the others'.
ARCBEAM_DEVICE std::uint32_t drawn(std::uint32_t rank, std::uint32_t step) {
    return mixed(rank * 0x9e3779b1U + step * 0x85ebca77U);
}

ARCBEAM_DEVICE std::uint64_t minimum_of(std::uint32_t value, std::uint32_t rank) {
    return static_cast<std::uint64_t>(value) << 32U | rank;
}

}  // namespace arcbeam

// next walks through all of the table, for the constants make a full period; steps: how far one step leads.
ARCBEAM_KERNEL(fill_table, 1024, arcbeam::ReadParams) {
    using namespace arcbeam;
    const std::uint64_t stride = static_cast<std::uint64_t>(simt::grid_size()) * simt::block_size();
    for (std::uint64_t i = global_rank(); i <= params.mask; i += stride) {
        const auto entry = static_cast<std::uint32_t>(i);
        const std::uint32_t next = (entry * 1664525U + 1013904223U) & params.mask;
        simt::store(params.table + i, Sixteen{next, 2U * entry, ~entry, 1U});
    }
}

// Independent reads, eight under way at a time.
ARCBEAM_KERNEL(random_reads, 1024, arcbeam::ReadParams) {
    using namespace arcbeam;
    const std::uint32_t rank = global_rank();
    std::uint64_t sum = 0U;
    for (std::uint32_t step = 0U; step < params.steps; step += 8U) {
        Sixteen read[8];
        for (std::uint32_t k = 0U; k < 8U; ++k) {
            read[k] = simt::load_readonly(params.table + (drawn(rank, step + k) & params.mask));
        }
        for (std::uint32_t k = 0U; k < 8U; ++k) {
            sum += static_cast<std::uint64_t>(read[k].next) + read[k].twice + read[k].flipped + read[k].one;
        }
    }
    simt::store(params.sums + rank, sum);
}

// Reads that each need the one before.
ARCBEAM_KERNEL(dependent_reads, 1024, arcbeam::ReadParams) {
    using namespace arcbeam;
    const std::uint32_t rank = global_rank();
    std::uint32_t at = drawn(rank, 0U) & params.mask;
    for (std::uint32_t step = 0U; step < params.steps; ++step) {
        at = simt::load_readonly(params.table + at).next;
    }
    simt::store(params.sums + rank, static_cast<std::uint64_t>(at));
}

// The first half of a table copied to the second, in order, eight entries of a thread under way at a time.
ARCBEAM_KERNEL(moves, 1024, arcbeam::ReadParams) {
    using namespace arcbeam;
    const std::uint32_t half = (params.mask + 1U) / 2U;
    const std::uint32_t stride = simt::grid_size() * simt::block_size();
    for (std::uint32_t step = 0U; step < params.steps; ++step) {
        for (std::uint32_t first = global_rank(); first < half; first += 8U * stride) {
            Sixteen read[8];
            for (std::uint32_t k = 0U; k < 8U; ++k) {
                if (first + k * stride < half) read[k] = simt::load(params.table + first + k * stride);
            }
            for (std::uint32_t k = 0U; k < 8U; ++k) {
                if (first + k * stride < half) simt::store(params.table + half + first + k * stride, read[k]);
            }
        }
    }
}

// 64-bit minima at random places of a table in device memory.
ARCBEAM_KERNEL(global_minima, 1024, arcbeam::MinParams) {
    using namespace arcbeam;
    const std::uint32_t rank = global_rank();
    for (std::uint32_t step = 0U; step < params.steps; ++step) {
        const std::uint32_t value = drawn(rank, step);
        simt::atomic_min(params.slots + (mixed(value) & params.mask), minimum_of(value, rank));
    }
}

// The same in shared memory, a table a block; the sum of a block's minima is its answer.
ARCBEAM_KERNEL(shared_minima, 1024, arcbeam::MinParams) {
    using namespace arcbeam;
    simt::Carver carver;
    const simt::Array<std::uint64_t> table = carver.take<std::uint64_t>(params.mask + 1U);
    for (std::uint32_t i = simt::thread_rank(); i <= params.mask; i += simt::block_size())
        table[i] = ~std::uint64_t{0};
    simt::block_barrier();
    const std::uint32_t rank = global_rank();
    for (std::uint32_t step = 0U; step < params.steps; ++step) {
        const std::uint32_t value = drawn(rank, step);
        simt::atomic_min<simt::Scope::block>(table.at(mixed(value) & params.mask), minimum_of(value, rank));
    }
    simt::block_barrier();
    std::uint64_t sum = 0U;
    for (std::uint32_t i = simt::thread_rank(); i <= params.mask; i += simt::block_size()) sum += table[i];
    simt::atomic_add<simt::Scope::device>(params.slots + simt::block_rank(), sum);
}

ARCBEAM_KERNEL(barriers, 1024, arcbeam::MinParams) {
    using namespace arcbeam;
    for (std::uint32_t step = 0U; step < params.steps; ++step) simt::block_barrier();
    if (simt::thread_rank() == 0U) simt::store(params.slots + simt::block_rank(), std::uint64_t{params.steps});
}
