// The buckets of an utterance: the hypotheses that have arrived on a later frame, or that stay on this one, equal
// histories merged. Its twin is cpu_reference/transducer/beam/bucket.hpp.
//
// in    arrivals in the order of the law, 32 at a time, one of each thread
// out   in each bucket one hypothesis for each history, in the order of their first arrivals
// rule  arrivals of one history are merged by the first of their threads, in the order of the threads
#pragma once

#include "transducer/beam/best_keys.cuh"
#include "transducer/beam/lattices.cuh"
#include "transducer/beam/utterance.cuh"

namespace arcbeam::transducer::beam {

template <class Lattices>
struct Buckets {
    const Utterance& of;
    const Lattices& lattices;

    // Adds the arrival of each thread below `arrivals` to its bucket; made(thread) is that of a thread. Gives the
    // best score among those of later frames.
    template <class Made>
    ARCBEAM_DEVICE float add(std::uint32_t arrivals, std::uint32_t bucket, std::uint32_t node,
                             const Made& made) const {
        const std::uint32_t me = simt::warp_thread();
        const bool arrives = me < arrivals;
        const std::uint64_t history = arrives ? std::uint64_t{bucket} << 32U | node : ~std::uint64_t{0};
        const std::uint32_t same = simt::match_any(simt::kAllThreads, history);
        const bool merges = arrives && simt::is_leader(same);
        std::uint32_t place = merges ? simt::load(of.place(node, bucket)) : kNowhere;
        const bool is_there =
            merges && place < simt::load(of.count(bucket)) && simt::load(&of.bucket(bucket, place)->node) == node;
        place = append(merges && !is_there, bucket, place);
        float score = -INFINITY;
        if (merges) {
            Hypothesis merged = is_there ? load_hypothesis(of.bucket(bucket, place)) : made(me);
            for (std::uint32_t left = is_there ? same : same & (same - 1U); left != 0U; left &= left - 1U) {
                const Hypothesis one = made(simt::lowest_bit(left));
                const float sum = merged_score(merged.score, one.score, of.beam.sums != 0U);
                if (one.path > merged.path) {
                    merged = one;
                }
                merged.score = sum;
            }
            store_hypothesis(of.bucket(bucket, place), merged);
            simt::store(of.place(node, bucket), place);
            score = bucket < of.beam.sizes.frames ? merged.score : score;
        }
        simt::warp_sync(simt::kAllThreads);
        return largest_of(score);
    }

    // Cut-off: the hypotheses of a bucket that score at least `bound`, of each context the first by (score, first
    // arrival), and of these the first, become the live ones. Gives their number. The bucket is empty then.
    ARCBEAM_DEVICE std::uint32_t cut_off(std::uint32_t bucket, float bound) const {
        const std::uint32_t count = simt::load(of.count(bucket));
        const auto key_of = [&](std::uint32_t i) {
            const float score = i < count ? simt::load(&of.bucket(bucket, i)->score) : -INFINITY;
            return i < count && score >= bound ? rank_key(score, i) : 0U;
        };
        if constexpr (Lattices::kKept) {
            if (lattices.contexts.merges()) {
                for (std::uint32_t i = simt::warp_thread(); i < count; i += simt::kWarpSize) {
                    put_best(simt::load(&of.bucket(bucket, i)->node), key_of(i));
                }
                simt::warp_sync(simt::kAllThreads);
            }
        }
        BestKeys best(of.most());
        for (std::uint32_t first = 0U; first < count; first += simt::kWarpSize) {
            const std::uint32_t i = first + simt::warp_thread();
            std::uint64_t key = key_of(i);
            if constexpr (Lattices::kKept) {
                if (key != 0U && lattices.contexts.merges()) {
                    key = take_best(simt::load(&of.bucket(bucket, i)->node), key);
                }
            }
            best.take(key);
        }
        if (best.key() != 0U) {
            store_hypothesis(of.live(simt::warp_thread()),
                             load_hypothesis(of.bucket(bucket, index_of(best.key()))));
        }
        simt::warp_sync(simt::kAllThreads);
        if (simt::warp_thread() == 0U) {
            simt::store(of.count(bucket), 0U);
        }
        simt::warp_sync(simt::kAllThreads);
        return best.count();
    }

    // Makes all scores relative to the best one in any bucket, which is the result; -infinity if there is none.
    // `later` is then the best one in buckets other than this.
    ARCBEAM_DEVICE float rescale(std::uint32_t bucket, float& later) const {
        float best = -INFINITY;
        float others = -INFINITY;
        each([&](std::uint32_t b, std::uint32_t i, std::uint32_t) {
            const float score = simt::load(&of.bucket(b, i)->score);
            best = score > best ? score : best;
            others = b != bucket && score > others ? score : others;
        });
        best = largest_of(best);
        later = largest_of(others) - best;
        each([&](std::uint32_t b, std::uint32_t i, std::uint32_t) {
            Hypothesis* const one = of.bucket(b, i);
            simt::store(&one->score, simt::load(&one->score) - best);
            simt::store(&one->path, simt::load(&one->path) - best);
        });
        simt::warp_sync(simt::kAllThreads);
        return best;
    }

    // The score below which as many histories as may live have left the frame with better ones.
    [[nodiscard]] ARCBEAM_DEVICE float overtaken() const {
        std::uint32_t arrivals = 0U;
        for (std::uint32_t b = 0U; b < of.beam.sizes.frames; ++b) {
            arrivals += simt::load(of.count(b));
        }
        if (arrivals < of.most()) {
            return -INFINITY;
        }
        each([&](std::uint32_t b, std::uint32_t i, std::uint32_t number) {
            const Piece first = simt::load(reinterpret_cast<const Piece*>(of.bucket(b, i)));
            put_best(first.words[0], rank_key(from_bits(first.words[1]), number));
        });
        simt::warp_sync(simt::kAllThreads);
        BestKeys best(of.most());
        std::uint32_t before = 0U;
        for (std::uint32_t b = 0U; b < of.beam.sizes.frames; ++b) {
            const std::uint32_t count = simt::load(of.count(b));
            for (std::uint32_t first = 0U; first < count; first += simt::kWarpSize) {
                const std::uint32_t i = first + simt::warp_thread();
                std::uint64_t key = 0U;
                if (i < count) {
                    const Piece one = simt::load(reinterpret_cast<const Piece*>(of.bucket(b, i)));
                    key = take_best(one.words[0], rank_key(from_bits(one.words[1]), before + i));
                }
                best.take(key);
            }
            before += count;
        }
        simt::warp_sync(simt::kAllThreads);
        return best.least() != 0U ? value_of(best.least()) : -INFINITY;
    }

  private:
    // The best key of a history's context, 0 if there is none; it is 0 outside a cut-off.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t* best_of_context(std::uint32_t node) const {
        if constexpr (Lattices::kKept) {
            return of.best(lattices.contexts.number(of, node));
        } else {
            return of.best(node);
        }
    }
    // All keys are put there, and then each is taken again: 0 but for the best one.
    ARCBEAM_DEVICE void put_best(std::uint32_t node, std::uint64_t key) const {
        simt::atomic_max<simt::Scope::block>(best_of_context(node), key);
    }
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t take_best(std::uint32_t node, std::uint64_t key) const {
        return simt::atomic_cas(best_of_context(node), key, std::uint64_t{0}) == key ? key : 0U;
    }

    // Calls take(bucket, place in it, number) for all in the buckets of later frames.
    template <class Take>
    ARCBEAM_DEVICE void each(const Take& take) const {
        std::uint32_t before = 0U;
        for (std::uint32_t b = 0U; b < of.beam.sizes.frames; ++b) {
            const std::uint32_t count = simt::load(of.count(b));
            for (std::uint32_t i = simt::warp_thread(); i < count; i += simt::kWarpSize) {
                take(b, i, before + i);
            }
            before += count;
        }
    }

    // The places of new hypotheses, in the order of their threads; `place` of the others.
    ARCBEAM_DEVICE std::uint32_t append(bool is_new, std::uint32_t bucket, std::uint32_t place) const {
        std::uint32_t left = simt::ballot(simt::kAllThreads, is_new);
        while (left != 0U) {
            const std::uint32_t number = simt::shuffle(simt::kAllThreads, bucket, simt::lowest_bit(left));
            const std::uint32_t together = simt::ballot(simt::kAllThreads, is_new && bucket == number);
            const std::uint32_t count = simt::load(of.count(number));
            if (is_new && bucket == number) {
                place = count + simt::place_in(together);
            }
            simt::warp_sync(simt::kAllThreads);
            if (simt::warp_thread() == 0U) {
                simt::store(of.count(number), count + simt::popcount(together));
            }
            left &= ~together;
        }
        simt::warp_sync(simt::kAllThreads);
        return place;
    }
};

}  // namespace arcbeam::transducer::beam
