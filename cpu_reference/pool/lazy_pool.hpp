// Work on numbered items: by a pool of threads that is made when it first pays, else by the caller.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>

#include "pool/thread_pool.hpp"

namespace arcbeam::twin {

class LazyPool {
  public:
    explicit LazyPool(std::size_t threads) : threads_(threads) {}

    // Calls work(item) for all items. Fewer than `fewest` are done by the caller, which stops at an error, and all
    // where no threads can be started. Threads do all items; then the error of the first that threw is thrown.
    // These are calls of one thread at a time.
    template <class Work>
    void each(std::size_t items, std::size_t fewest, const Work& work) {
        if (items < fewest || !is_made()) {
            for (std::size_t item = 0; item < items; ++item) {
                work(item);
            }
            return;
        }
        Failure first{items, nullptr};
        std::mutex mutex;
        pool_->start(items, [&](std::size_t, std::size_t item) {
            try {
                work(item);
            } catch (...) {
                const std::lock_guard<std::mutex> lock(mutex);
                if (item < first.item) {
                    first = {item, std::current_exception()};
                }
            }
        });
        while (!pool_->wait(std::chrono::milliseconds(1000))) {
        }
        if (first.error) {
            std::rethrow_exception(first.error);
        }
    }

  private:
    struct Failure {
        std::size_t item;
        std::exception_ptr error;
    };

    bool is_made() {
        if (pool_ == nullptr && threads_ > 1U) {
            try {
                pool_ = std::make_unique<ThreadPool>(threads_);
            } catch (const std::system_error&) {
            }
        }
        return pool_ != nullptr;
    }

    std::size_t threads_;
    std::unique_ptr<ThreadPool> pool_;
};

}  // namespace arcbeam::twin
