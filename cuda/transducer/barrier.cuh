// A barrier of the whole grid, whose blocks are all resident (a cooperative launch).
//
// If a block does not come, the barrier gives up in all blocks: then wait() returns false, the status word is set,
// and the kernel must return.
#pragma once

#include "shared/simt.cuh"

namespace arcbeam::transducer {

class GridBarrier {
  public:
    ARCBEAM_DEVICE GridBarrier(std::uint32_t* arrived, std::uint32_t* status, std::uint64_t patience,
                               std::uint32_t* verdict)
        : arrived_(arrived), status_(status), patience_(patience), verdict_(verdict) {}

    // All threads of all blocks call this. Afterwards, each sees what the others wrote before.
    ARCBEAM_DEVICE bool wait() {
        simt::block_barrier();
        target_ += simt::grid_size();
        if (simt::thread_rank() == 0U) {
            simt::atomic_add<simt::Scope::device, simt::Order::release>(arrived_, 1U);
            simt::store(verdict_, all_arrive() ? 0U : 1U);
        }
        simt::block_barrier();
        return simt::load(verdict_) == 0U;
    }

  private:
    static constexpr std::uint32_t kPolls = 512U;  // polls before it sleeps in between

    ARCBEAM_DEVICE bool is_complete() const {
        // This compares a difference, because the count may wrap around.
        return static_cast<std::int32_t>(simt::load_acquire<simt::Scope::device>(arrived_) - target_) >= 0;
    }

    ARCBEAM_DEVICE bool all_arrive() const {
        for (std::uint32_t i = 0; i < kPolls; ++i) {
            if (is_complete()) {
                return true;
            }
        }
        simt::Backoff backoff{patience_};
        while (!is_complete()) {
            if (simt::load_relaxed<simt::Scope::device>(status_) != 0U || !backoff.wait()) {
                simt::report_status(status_, 1U);
                return false;
            }
        }
        return true;
    }

    std::uint32_t* arrived_;
    std::uint32_t* status_;
    std::uint64_t patience_;
    std::uint32_t* verdict_;  // in shared memory
    std::uint32_t target_ = 0U;
};

}  // namespace arcbeam::transducer
