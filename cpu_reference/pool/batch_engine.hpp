// Batches of utterances on a pool of threads, the longest first.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "pool/thread_pool.hpp"

namespace arcbeam::twin {

// The part of an engine that callers need which wait for it.
class AnyEngine {
  public:
    AnyEngine() = default;
    virtual ~AnyEngine() = default;
    AnyEngine(const AnyEngine&) = delete;
    AnyEngine& operator=(const AnyEngine&) = delete;

    // Waits for the batch, at most `milliseconds`; returns whether it is done.
    virtual bool wait(int milliseconds) = 0;

    // Requests an early end of the batch; wait() must still be called until it returns true.
    virtual void cancel() = 0;

    // How many utterances of the batch in progress are finished, 0 without one; any thread may read it.
    [[nodiscard]] virtual std::size_t finished() const = 0;
};

// A Worker belongs to one thread, which makes it when it first has something to decode. It keeps its buffers from
// batch to batch. Its function
//     void decode(batch, members, const std::atomic<bool>& cancel, results)
// decodes some utterances of a batch, of similar lengths. `frames_of(utterance)` returns an utterance's length.
template <typename Worker, typename Utterance, typename Result>
class BatchEngine : public AnyEngine {
  public:
    using MakeWorker = std::function<std::unique_ptr<Worker>()>;

    BatchEngine(MakeWorker make_worker, std::size_t threads, std::size_t most_members = 1)
        : make_worker_(std::move(make_worker)), most_members_(most_members), workers_(threads), pool_(threads) {}

    // Starts a batch. The data that the utterances point to must stay until wait() returns true. There can be one
    // batch at a time.
    void start(std::vector<Utterance> batch) {
        take(std::move(batch));
        std::vector<std::size_t> order(batch_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
            return frames_of(batch_[a]) > frames_of(batch_[b]);
        });
        const std::size_t needed = (order.size() + most_members_ - 1) / most_members_;
        const std::size_t groups = std::max(needed, std::min(order.size(), workers_.size()));
        members_.assign(groups, {});
        for (std::size_t i = 0; i < order.size(); ++i) {
            members_[i * groups / order.size()].push_back(order[i]);
        }
        pool_.start(groups, [this](std::size_t worker, std::size_t item) { decode(worker, members_[item]); });
    }

    bool wait(int milliseconds) override {
        const bool done = pool_.wait(std::chrono::milliseconds(milliseconds));
        if (done) {
            finished_ = 0;
        }
        return done;
    }
    void cancel() override { cancel_ = true; }
    [[nodiscard]] std::size_t finished() const override { return finished_.load(std::memory_order_relaxed); }

    // Of the last batch, for whoever has waited for it; large parts may be moved out.
    [[nodiscard]] std::vector<Result>& results() { return results_; }

  protected:
    // Takes a batch without starting it: threads of the pool decode_one() at a time, each once.
    void begin(std::vector<Utterance> batch) {
        take(std::move(batch));
        members_.assign(batch_.size(), {});
        for (std::size_t i = 0; i < members_.size(); ++i) {
            members_[i].push_back(i);
        }
    }

    void decode_one(std::size_t worker, std::size_t utterance) { decode(worker, members_[utterance]); }

    std::vector<Utterance> batch_;

  private:
    void take(std::vector<Utterance> batch) {
        batch_ = std::move(batch);
        results_.assign(batch_.size(), Result{});
        cancel_ = false;
    }

    void decode(std::size_t worker, const std::vector<std::size_t>& members) {
        try {
            if (!workers_[worker]) {
                workers_[worker] = make_worker_();
            }
            workers_[worker]->decode(batch_, members, cancel_, results_);
        } catch (const std::exception&) {
            workers_[worker].reset();
            for (const std::size_t member : members) {
                results_[member] = Result{};
                results_[member].outcome = decltype(Result::outcome)::kOutOfMemory;
            }
        }
        finished_.fetch_add(members.size(), std::memory_order_relaxed);
    }

    const MakeWorker make_worker_;
    const std::size_t most_members_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<Result> results_;
    std::vector<std::vector<std::size_t>> members_;
    std::atomic<bool> cancel_{false};
    std::atomic<std::size_t> finished_{0};

  protected:
    ThreadPool pool_;  // last, so that its threads end first
};

}  // namespace arcbeam::twin
