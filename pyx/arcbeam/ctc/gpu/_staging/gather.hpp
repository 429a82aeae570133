// Copies pieces of log-probs to pinned memory with several threads, because one thread alone is slower than the
// copy to the device.
#pragma once

#include <cstddef>

#include "arcbeam/ctc/gpu/_staging/order.hpp"
#include "pool/thread_pool.hpp"

namespace arcbeam::staging {

// Copies a part to `to`, in the order of its lines.
void gather(const Order& order, const Part& part, unsigned char* to);

class Gatherer {
  public:
    explicit Gatherer(std::size_t threads) : pool_(threads) {}

    // Starts the same copy. Neither side may change until wait() returns true.
    void start(const Order& order, const Part& part, unsigned char* to);
    bool wait(int milliseconds) { return pool_.wait(std::chrono::milliseconds(milliseconds)); }

  private:
    twin::ThreadPool pool_;
};

}  // namespace arcbeam::staging
