// The largest keys that a warp has been given, in order: thread i holds number i, 0 if there are not so many.
#pragma once

#include "shared/simt.cuh"
#include "transducer/beam/beam_memory.hpp"

namespace arcbeam::transducer::beam {

class BestKeys {
  public:
    // `most`: up to 32.
    ARCBEAM_DEVICE explicit BestKeys(std::uint32_t most) : most_(most) {}

    // Takes a key from each thread, 0 for none. No two are equal.
    ARCBEAM_DEVICE void take(std::uint64_t one) {
        std::uint32_t waiting = simt::ballot(simt::kAllThreads, one > least_);
        while (waiting != 0U) {
            const std::uint32_t source = simt::lowest_bit(waiting);
            insert(simt::shuffle(simt::kAllThreads, one, source));
            waiting = simt::ballot(simt::kAllThreads, one > least_ && simt::warp_thread() > source);
        }
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t key() const { return key_; }
    // The smallest of them, 0 if there are fewer than `most`.
    [[nodiscard]] ARCBEAM_DEVICE std::uint64_t least() const { return least_; }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t count() const {
        return simt::popcount(simt::ballot(simt::kAllThreads, key_ != 0U));
    }

  private:
    ARCBEAM_DEVICE void insert(std::uint64_t one) {
        const std::uint32_t place = simt::popcount(simt::ballot(simt::kAllThreads, key_ > one));
        const std::uint64_t before = simt::shuffle_up(simt::kAllThreads, key_, 1U);
        const std::uint32_t i = simt::warp_thread();
        key_ = i < place ? key_ : i == place ? one : i < most_ ? before : 0U;
        least_ = simt::shuffle(simt::kAllThreads, key_, most_ - 1U);
    }

    std::uint32_t most_;
    std::uint64_t key_ = 0U;
    std::uint64_t least_ = 0U;
};

}  // namespace arcbeam::transducer::beam
