// Batches of utterances on a pool of threads: neighbours by length share a group, and a thread takes a group at a
// time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "pool/thread_pool.hpp"
#include "transducer/group.hpp"
#include "transducer/network.hpp"

namespace arcbeam::transducer {

class Engine {
  public:
    // The network must outlive the engine.
    Engine(const Network& network, const Options& options, std::size_t threads);

    // Starts a batch. Its arrays and states must stay until wait() returns true; one batch at a time.
    void start(std::vector<Utterance> batch);

    // Waits for the batch, at most so long; says whether it is done.
    bool wait(int milliseconds);

    // Asks the batch to end early; wait() must still be called until it returns true.
    void cancel() { cancel_ = true; }

    [[nodiscard]] const std::vector<Result>& results() const { return results_; }

  private:
    void decode(std::size_t worker, const std::vector<std::size_t>& members);

    const Network& network_;
    const Options options_;
    std::vector<std::unique_ptr<Group>> groups_;  // one a worker, for its buffers
    std::vector<Utterance> batch_;
    std::vector<Result> results_;
    std::vector<std::vector<std::size_t>> members_;
    std::atomic<bool> cancel_{false};
    twin::ThreadPool pool_;  // last, so that its threads end first
};

}  // namespace arcbeam::transducer
