// Data that blocks share: a hash table with linear probing, a work queue, a chain of blocks that wait for each
// other.
#include "shared/simt.cuh"

using namespace arcbeam::simt;

struct TableParams {
    Array<const std::uint32_t> keys;
    Array<const std::uint32_t> costs;
    Array<std::uint32_t> slots;  // key + 1, 0 where free
    Array<std::uint64_t> best;   // of a slot: the smallest cost << 32 | position
    std::uint32_t* status;
};

// Keys come to lie where the schedule has it; what is known of each does not depend on it.
ARCBEAM_KERNEL(table_insert, 256, TableParams) {
    const std::uint32_t stride = grid_size() * block_size();
    for (std::uint32_t i = block_rank() * block_size() + thread_rank(); i < params.keys.size; i += stride) {
        const std::uint32_t key = load_readonly(params.keys.at(i)) + 1U;
        std::uint32_t slot = key * 2654435761U % params.slots.size;
        std::uint32_t tries = 0;
        while (true) {
            const std::uint32_t found = atomic_cas(params.slots.at(slot), 0U, key);
            if (found == 0U || found == key) break;
            slot = slot + 1U == params.slots.size ? 0U : slot + 1U;
            if (++tries == params.slots.size) {
                report_status(params.status, 1U);
                return;
            }
        }
        const std::uint64_t packed = static_cast<std::uint64_t>(load_readonly(params.costs.at(i))) << 32U | i;
        atomic_min(params.best.at(slot), packed);
    }
}

struct QueueParams {
    Array<const std::uint32_t> work;
    Array<std::uint32_t> results;
    std::uint32_t* next;
};

// A block takes the next item when it is done with one; its threads share it through shared memory.
ARCBEAM_KERNEL(work_queue, 256, QueueParams) {
    Carver carver;
    const Array<std::uint32_t> taken = carver.take<std::uint32_t>(1);
    const Array<std::uint32_t> sum = carver.take<std::uint32_t>(1);
    while (true) {
        if (thread_rank() == 0U) {
            taken[0] = atomic_add(params.next, 1U);
            sum[0] = 0U;
        }
        block_barrier();
        const std::uint32_t item = taken[0];
        if (item >= params.work.size) return;
        const std::uint32_t value = load_readonly(params.work.at(item));
        for (std::uint32_t i = thread_rank(); i < value; i += block_size()) atomic_add<Scope::block>(sum.at(0), i);
        block_barrier();
        if (thread_rank() == 0U) params.results[item] = sum[0];
    }
}

struct ChainParams {
    std::uint32_t* totals;  // [grid * block]
    std::uint32_t* flags;   // [grid]
    std::uint32_t* status;
    std::uint64_t patience;
};

// Block b adds to what block b - 1 wrote with plain stores and published with one release.
ARCBEAM_KERNEL(chain, 256, ChainParams) {
    const std::uint32_t b = block_rank();
    std::uint32_t before = 0;
    if (b > 0U) {
        bool arrived = true;
        if (thread_rank() == 0U && b % 3U != 0U) {  // either way of looking
            Backoff backoff{params.patience};
            while (load_acquire<Scope::device>(params.flags + b - 1U) == 0U && arrived) arrived = backoff.wait();
        } else if (thread_rank() == 0U) {
            Backoff backoff{params.patience};
            while (load_relaxed<Scope::device>(params.flags + b - 1U) == 0U && arrived) arrived = backoff.wait();
            fence<Scope::device>();
        }
        if (block_barrier_and(arrived)) {
            before = load(params.totals + (b - 1U) * block_size() + thread_rank());
        } else if (thread_rank() == 0U) {
            report_status(params.status, 7U);
        }
    }
    store(params.totals + b * block_size() + thread_rank(), before + b + thread_rank());
    block_barrier();
    if (thread_rank() == 0U) {  // either way of publishing
        if (b % 2U == 0U) {
            store_release<Scope::device>(params.flags + b, 1U);
        } else {
            fence<Scope::device>();
            store_relaxed<Scope::device>(params.flags + b, 1U);
        }
    }
}
