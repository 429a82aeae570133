// Kernels with one fault each: what the emulator is for.
#include "shared/simt.cuh"

using namespace arcbeam::simt;

struct FaultParams {
    std::uint32_t* out;
    std::uint32_t fault;
};

enum Fault : std::uint32_t {
    kNoBarrier,
    kBlindUpdate,
    kNoRelease,
    kNarrowScope,
    kShuffleIsNoBarrier,
    kPlainFlag,
    kUninitialised,
    kBeyondShared,
    kBeyondGlobal,
    kBeyondArray,
    kMisaligned,
    kDivergentBarrier,
    kEarlyEnd,
    kMissingLane,
    kTwoShuffles,
    kEndedLane,
    kEndlessSpin,
    kMissingWarp,
    kEarlyCopy,
    kPeerTooSoon,
    kPeerEnded,
    kReadOnlyWritten,
    kWildWrite,
    kNarrowAtomics,
    kOnlyReleased,
    kRelaxedStore,
    kEndlessWalk,
};

ARCBEAM_KERNEL(faulty, 64, FaultParams) {
    unsigned char* const shared = shared_memory();
    auto* const words = reinterpret_cast<std::uint32_t*>(shared);
    const std::uint32_t t = thread_rank();
    std::uint32_t* const out = params.out;
    std::uint32_t* const flag = out + 1;
    switch (params.fault) {
        case kNoBarrier:  // what the neighbour wrote may not be there yet
            store(words + t, 0U);
            block_barrier();
            store(words + t, t);
            store(out + block_rank() * block_size() + t, load(words + (t + 1U) % block_size()));
            break;
        case kBlindUpdate:  // two blocks read the same value, both add one
            if (t == 0U) store(out, load(out) + 1U);
            break;
        case kNoRelease:
            if (t == 0U && block_rank() == 0U) {
                store(out, 5U);
                store_relaxed(flag, 1U);
            } else if (t == 0U) {
                while (load_acquire(flag) == 0U) nanosleep(10U);
                store(out + 2, load(out));
            }
            break;
        case kNarrowScope:
            if (t == 0U && block_rank() == 0U) {
                store(out, 5U);
                store_release<Scope::block>(flag, 1U);
            } else if (t == 0U) {
                while (load_acquire<Scope::device>(flag) == 0U) nanosleep(10U);
                store(out + 2, load(out));
            }
            break;
        case kShuffleIsNoBarrier:
            store(words + t, t);
            (void)shuffle(warp_mask(), t, 0U);
            store(out + t, load(words + (t ^ 1U)));
            break;
        case kPlainFlag:
            if (t == 0U && block_rank() == 0U) store(flag, 1U);
            if (t == 0U && block_rank() == 1U) store(out, load_relaxed(flag));
            break;
        case kUninitialised:
            store(out + t, load(words + t));
            break;
        case kBeyondShared:
            store(words + shared_memory_bytes() / 4U, 1U);
            break;
        case kBeyondGlobal:
            store(out + 4096, 1U);
            break;
        case kBeyondArray: {
            const Array<std::uint32_t> view{words, 4U};
            view[4] = 1U;
            break;
        }
        case kMisaligned:
            store(reinterpret_cast<std::uint64_t*>(words + 1), std::uint64_t{1});
            break;
        case kDivergentBarrier:
            if (t % 2U == 0U) {
                block_barrier();
            } else {
                block_barrier();
            }
            break;
        case kEarlyEnd:
            if (t == 3U) return;
            block_barrier();
            break;
        case kMissingLane:
            if (warp_thread() != 0U) (void)ballot(warp_mask(), true);
            block_barrier();
            break;
        case kTwoShuffles:
            if (t % 2U == 0U) {
                (void)shuffle(warp_mask(), t, 0U);
            } else {
                (void)shuffle(warp_mask(), t, 0U);
            }
            break;
        case kEndedLane:
            if (warp_thread() == 1U) return;
            nanosleep(100U);
            for (int i = 0; i < 100; ++i) nanosleep(10U);
            (void)ballot(warp_mask(), true);
            break;
        case kEndlessSpin:
            while (load_relaxed(flag) == 0U) nanosleep(10U);
            break;
        case kEndlessWalk:
            while (load(out + t) != 1U) {
            }
            break;
        case kMissingWarp:
            if (warp() == 0U) named_barrier(1U, 64U);
            break;
        case kEarlyCopy:
            copy_async<4>(words + t, out + t);
            copy_commit();
            store(out + 64 + t, load(words + t));
            copy_wait<0>();
            break;
        case kPeerTooSoon:
            store(map_shared(words, 1U - cluster_rank()), 1U);
            break;
        case kPeerEnded:
            store(words + t, t);
            cluster_barrier();
            if (cluster_rank() == 1U) return;
            for (int i = 0; i < 1000; ++i) nanosleep(10U);
            store(out + t, load(map_shared(words + t, 1U)));
            break;
        case kReadOnlyWritten:
            store(out + t, load_readonly(out + t) + 1U);
            break;
        case kWildWrite:
            words[shared_memory_bytes() / 4U] = 1U;
            break;
        case kNarrowAtomics:
            atomic_add<Scope::block>(out, 1U);
            break;
        case kOnlyReleased:  // right, but racecheck knows no release
            if (t == 0U) store(words, 0U);
            block_barrier();
            if (t == 0U) {
                store(words + 1, 5U);
                atomic_exchange<Scope::block, Order::release>(words, 1U);
            } else if (t == 1U) {
                while (load_acquire<Scope::block>(words) == 0U) nanosleep(10U);
                store(out, load(words + 1));
            }
            break;
        case kRelaxedStore:  // an exchange would do
            if (t == 0U) store(words, 0U);
            block_barrier();
            if (t == 0U) store_relaxed<Scope::block>(words, 1U);
            if (t == 1U) store(out, load_relaxed<Scope::block>(words) & 2U);
            break;
        default:
            break;
    }
}
