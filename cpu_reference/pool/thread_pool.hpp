// A pool of threads that works through numbered items, one job at a time.
//
// Any thread may take any item; results must not depend on which one does.
#pragma once

#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "common/room_to_throw.hpp"

namespace arcbeam::twin {

class ThreadPool {
  public:
    using Job = std::function<void(std::size_t worker, std::size_t item)>;  // must not throw

    explicit ThreadPool(std::size_t threads) {
        workers_.reserve(threads);
        try {
            for (std::size_t worker = 0; worker < threads; ++worker) {
                workers_.emplace_back([this, worker] { begin(worker); });
            }
            std::unique_lock<std::mutex> lock(mutex_);
            done_.wait(lock, [&] { return begun_ == threads; });
            if (starved_) {
                throw std::bad_alloc();
            }
        } catch (...) {  // no thread can be started: those that wait must end before the objects they wait on
            stop();
            throw;
        }
    }

    ~ThreadPool() { stop(); }

    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    [[nodiscard]] std::size_t threads() const { return workers_.size(); }

    // Starts a job; the one before must have finished.
    void start(std::size_t items, Job job) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            job_ = std::move(job);
            items_ = items;
            next_item_ = 0;
            busy_ = workers_.size();
            ++generation_;
        }
        wake_.notify_all();
    }

    // Waits for the job's end, at most `limit`; returns whether it has ended.
    bool wait(std::chrono::milliseconds limit) {
        std::unique_lock<std::mutex> lock(mutex_);
        return done_.wait_for(lock, limit, [this] { return busy_ == 0; });
    }

  private:
    void stop() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_all();
        for (std::thread& worker : workers_) {
            worker.join();
        }
    }

    void begin(std::size_t worker) {
        const bool able = has_room_to_throw();
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            starved_ = starved_ || !able;
            ++begun_;
            done_.notify_all();
        }
        if (able) {
            work(worker);
        }
    }

    void work(std::size_t worker) {
        // A thread inherits its creator's floating-point mode, which may flush denormals to zero.
        std::fesetenv(FE_DFL_ENV);
        std::size_t seen = 0;
        for (;;) {
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
                if (stopping_) {
                    return;
                }
                seen = generation_;
            }
            for (std::size_t item; (item = next_item_.fetch_add(1, std::memory_order_relaxed)) < items_;) {
                job_(worker, item);
            }
            bool last;
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                last = --busy_ == 0;
            }
            if (last) {
                done_.notify_all();
            }
        }
    }

    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    Job job_;
    std::size_t items_ = 0;
    std::atomic<std::size_t> next_item_{0};
    std::size_t begun_ = 0;
    bool starved_ = false;  // whether a thread has ended at once, out of memory
    std::size_t busy_ = 0;
    std::size_t generation_ = 0;
    bool stopping_ = false;
};

}  // namespace arcbeam::twin
