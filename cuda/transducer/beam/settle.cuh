// What an utterance drops before the cut-off of a frame or after it: hypotheses that begin otherwise than the best
// one (settle_frames), and predictions of streams. The twins are Lane::settle and PrefixTree::keep.
#pragma once

#include "transducer/beam/utterance.cuh"

namespace arcbeam::transducer::beam {

class Settling {
  public:
    ARCBEAM_DEVICE explicit Settling(const Utterance& of) : of_(of) {}

    // Drops hypotheses whose histories begin otherwise than that of the best one does with its labels before so
    // many frames. Gives the best score that is left on frames after this one.
    ARCBEAM_DEVICE float settle(std::uint32_t frame) const {
        const std::uint32_t kept = kept_of(best(frame), std::int64_t{frame} - std::int64_t{of_.beam.settle_frames});
        float later = -INFINITY;
        for (std::uint32_t k = 0U; k < of_.beam.sizes.frames; ++k) {
            const float score = drop(of_.bucket_of(frame + k), kept);
            later = k > 0U && score > later ? score : later;
        }
        return largest_of(later);
    }

    // Keeps the predictions of what is live or in a bucket, of their children, and of the parents of those that
    // have none. A state has these, so streams drop the others on each frame.
    ARCBEAM_DEVICE void keep_predictions(std::uint32_t live) const {
        each(live, [this](std::uint32_t node) {
            simt::atomic_max<simt::Scope::block>(of_.best(owner_of_needed(node)), std::uint64_t{1});
            simt::atomic_max<simt::Scope::block>(of_.best(node), std::uint64_t{1});
        });
        simt::warp_sync(simt::kAllThreads);
        for (std::uint32_t slot = simt::warp_thread(); slot < of_.rooms().slots; slot += simt::kWarpSize) {
            const std::uint32_t owner = simt::load(of_.memory.slots + of_.slot_at(slot));
            if (owner != 0U && !is_marked(owner - 1U) && !is_marked(parent_of(owner - 1U))) {
                simt::store(of_.memory.slots + of_.slot_at(slot), 0U);
                simt::store(&of_.node(owner - 1U)->slot, kNowhere);
            }
        }
        simt::warp_sync(simt::kAllThreads);
        each(live, [this](std::uint32_t node) {  // what is marked has kept its slot
            simt::atomic_and<simt::Scope::block>(of_.best(owner_of_needed(node)), std::uint64_t{0});
            simt::atomic_and<simt::Scope::block>(of_.best(node), std::uint64_t{0});
        });
        simt::warp_sync(simt::kAllThreads);
    }

  private:
    // The root is its own.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t parent_of(std::uint32_t node) const {
        return node == kRoot ? kRoot : simt::load(&of_.node(node)->parent);
    }

    // The history whose prediction another one needs.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t owner_of_needed(std::uint32_t node) const {
        return simt::load(&of_.node(node)->slot) != kNowhere ? node : parent_of(node);
    }

    [[nodiscard]] ARCBEAM_DEVICE bool is_marked(std::uint32_t node) const {
        return simt::load(of_.best(node)) != 0U;
    }

    // Calls take(history) for all hypotheses that are live or in a bucket.
    template <class Take>
    ARCBEAM_DEVICE void each(std::uint32_t live, const Take& take) const {
        for (std::uint32_t i = simt::warp_thread(); i < live; i += simt::kWarpSize) {
            take(simt::load(&of_.live(i)->node));
        }
        for (std::uint32_t b = 0U; b < of_.beam.sizes.frames; ++b) {
            const std::uint32_t count = simt::load(of_.count(b));
            for (std::uint32_t i = simt::warp_thread(); i < count; i += simt::kWarpSize) {
                take(simt::load(&of_.bucket(b, i)->node));
            }
        }
    }

    // The hypothesis with the largest score, of equals the first by frame, then arrival.
    [[nodiscard]] ARCBEAM_DEVICE Hypothesis best(std::uint32_t frame) const {
        std::uint64_t best = 0U;
        std::uint32_t before = 0U;
        for (std::uint32_t k = 0U; k < of_.beam.sizes.frames; ++k) {
            const std::uint32_t bucket = of_.bucket_of(frame + k);
            const std::uint32_t count = simt::load(of_.count(bucket));
            for (std::uint32_t i = simt::warp_thread(); i < count; i += simt::kWarpSize) {
                const std::uint64_t key = rank_key(simt::load(&of_.bucket(bucket, i)->score), before + i);
                best = key > best ? key : best;
            }
            before += count;
        }
        for (std::uint32_t d = 1U; d < simt::kWarpSize; d *= 2U) {
            const std::uint64_t other = simt::shuffle_xor(simt::kAllThreads, best, d);
            best = other > best ? other : best;
        }
        std::uint32_t left = index_of(best);
        std::uint32_t bucket = of_.bucket_of(frame);
        for (std::uint32_t k = 0U; left >= simt::load(of_.count(bucket)) && k < of_.beam.sizes.frames; ++k) {
            left -= simt::load(of_.count(bucket));
            bucket = of_.bucket_of(frame + k + 1U);
        }
        return load_hypothesis(of_.bucket(bucket, left));
    }

    // Its history without the labels from frame `first` on.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t kept_of(const Hypothesis& best, std::int64_t first) const {
        std::uint32_t kept = best.node;
        if ((best.duration & kWritten) != 0U && is_from(best.frame, first)) {
            kept = parent_of(kept);
        }
        std::uint32_t at = best.log;
        while (at != kNowhere && is_from(simt::load(&of_.log(at)->frame), first)) {
            kept = parent_of(kept);
            at = simt::load(&of_.log(at)->before);
        }
        return kept;
    }

    [[nodiscard]] ARCBEAM_DEVICE static bool is_from(std::uint32_t frame, std::int64_t first) {
        return std::int64_t{static_cast<std::int32_t>(frame)} >= first;
    }

    // Drops hypotheses of a bucket whose histories do not begin with this one. Gives the best score that a thread
    // has left.
    ARCBEAM_DEVICE float drop(std::uint32_t bucket, std::uint32_t kept) const {
        const std::uint32_t count = simt::load(of_.count(bucket));
        std::uint32_t left = 0U;
        float best = -INFINITY;
        for (std::uint32_t first = 0U; first < count; first += simt::kWarpSize) {
            const std::uint32_t i = first + simt::warp_thread();
            const Hypothesis one = load_hypothesis(of_.bucket(bucket, i < count ? i : first));
            const bool stays = i < count && begins_with(one.node, kept);
            const std::uint32_t stayers = simt::ballot(simt::kAllThreads, stays);
            simt::warp_sync(simt::kAllThreads);  // all of them are read before one is moved
            if (stays) {
                const std::uint32_t place = left + simt::place_in(stayers);
                store_hypothesis(of_.bucket(bucket, place), one);
                simt::store(of_.place(one.node, bucket), place);
                best = one.score > best ? one.score : best;
            }
            left += simt::popcount(stayers);
        }
        simt::warp_sync(simt::kAllThreads);
        if (simt::warp_thread() == 0U) {
            simt::store(of_.count(bucket), left);
        }
        simt::warp_sync(simt::kAllThreads);
        return best;
    }

    [[nodiscard]] ARCBEAM_DEVICE bool begins_with(std::uint32_t node, std::uint32_t kept) const {
        while (node > kept) {
            node = parent_of(node);  // which comes before it
        }
        return node == kept;
    }

    const Utterance& of_;
};

// Calls, so that utterances without them pay nothing.
ARCBEAM_DEVICE_NOINLINE float settle_apart(const Utterance of, std::uint32_t frame) {
    return Settling(of).settle(frame);
}
ARCBEAM_DEVICE_NOINLINE void keep_predictions_apart(const Utterance of, std::uint32_t live) {
    Settling(of).keep_predictions(live);
}

}  // namespace arcbeam::transducer::beam
