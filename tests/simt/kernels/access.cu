// Every load and store there is, and the atomics of every type.
#include "shared/simt.cuh"

using namespace arcbeam::simt;

struct alignas(16) Wide {
    std::uint32_t a, b;
    float c;
    std::uint32_t d;
};

struct AccessParams {
    const Wide* wide;             // [block]
    const std::uint64_t* pairs;   // [block]
    const std::uint16_t* halves;  // [block]
    Wide* wide_out;               // [5, block]
    std::uint64_t* pairs_out;     // [8, block]
    std::uint16_t* halves_out;    // [2, block]
    std::int32_t* ints;           // [4]: smallest, largest, sum, exchanged
    std::uint64_t* longs;         // [6]: smallest, largest, sum, or, and, claimed
};

ARCBEAM_KERNEL(every_access, 256, AccessParams) {
    const std::uint32_t t = thread_rank();
    const std::uint32_t n = block_size();
    prefetch(params.wide + t);
    prefetch_keep(params.pairs + t);
    store(params.wide_out + t, load(params.wide + t));
    store(params.wide_out + n + t, load_readonly(params.wide + t));
    store(params.wide_out + 2U * n + t, load_readonly_keep(params.wide + t));
    store_streaming(params.wide_out + 3U * n + t, load_readonly_once(params.wide + t));
    store(params.wide_out + 4U * n + t, load_streaming(params.wide + t));

    std::uint64_t* out = params.pairs_out + t;
    const auto put = [&](std::uint64_t value) {
        store(out, value);
        out += n;
    };
    put(load_readonly(params.pairs + t));
    put(load_readonly_keep(params.pairs + t));
    put(load_relaxed<Scope::block>(params.pairs + t));
    put(load_acquire<Scope::cluster>(params.pairs + t));
    put(load_acquire<Scope::system>(params.pairs + t));
    store_relaxed<Scope::device>(out, load(params.pairs + t));
    store_release<Scope::block>(out + n, load(params.pairs + t));
    fence<Scope::block>();
    fence<Scope::cluster>();
    fence<Scope::system>();
    store_release<Scope::cluster>(reinterpret_cast<float*>(out + 2U * n), load_acquire(&params.wide[t].c));
    store_relaxed<Scope::system>(reinterpret_cast<std::uint32_t*>(out + 2U * n) + 1, 9U);
    store(params.halves_out + t, load_readonly(params.halves + t));
    store(params.halves_out + n + t, load_readonly_keep(params.halves + t));

    const std::uint64_t pair = load_readonly(params.pairs + t);
    const auto number = static_cast<std::int32_t>(pair);
    atomic_min(params.ints, number);
    atomic_max<Scope::cluster>(params.ints + 1, number);
    atomic_add<Scope::system>(params.ints + 2, number);
    atomic_exchange(params.ints + 3, std::int32_t{-5});
    atomic_min<Scope::device, Order::acquire_release>(params.longs, pair);
    atomic_max(params.longs + 1, pair);
    atomic_add<Scope::device, Order::release>(params.longs + 2, pair);
    atomic_or(params.longs + 3, pair);
    atomic_and<Scope::device, Order::acquire>(params.longs + 4, pair);
    const std::uint64_t found = atomic_cas(params.longs + 5, std::uint64_t{0}, pair | 1U);
    if (block_barrier_count(found == 0U) != 1U) store(params.ints, 0);
}
