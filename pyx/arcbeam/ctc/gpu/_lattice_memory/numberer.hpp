// Makes lattices of what kernels have written to the pool, on threads of the host, while other lanes decode.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "decode/lattice_room.hpp"
#include "graph/open_graph.hpp"
#include "lattice/lattice.hpp"
#include "pool/thread_pool.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam {

// An utterance of a window whose lattice has not been numbered yet.
struct PendingLattice {
    const LatticeResult* result;
    lattice::Lattice* into;
    const NewWordsView* new_words;  // null: none
};

// For each window begin(); for each launch start(), poll() as often as one likes, finish(), and wait() until it is
// true. These are calls of one thread.
class Numberer {
  public:
    explicit Numberer(std::size_t threads) : pool_(threads) {}

    // The columns of the graph and of new words, and what the lattices point to must stay until the last wait().
    void begin(const GraphView& graph, std::vector<PendingLattice> pending);

    // A launch writes to `memory`.
    void start(const unsigned char* memory);

    // Hands those that have been written since the last poll to the threads.
    void poll();

    // The launch has ended, or what it writes is not needed any more.
    void finish();

    // Waits at most `milliseconds`; says whether all are made that have been handed over.
    bool wait(int milliseconds);

    // Whether memory ran out; call it once all are made.
    [[nodiscard]] bool failed() const { return failed_; }

  private:
    void work();

    GraphView graph_{};
    const unsigned char* memory_ = nullptr;
    std::vector<PendingLattice> pending_;  // and not handed over yet
    std::vector<PendingLattice> handed_;   // since the start of the launch
    std::size_t next_ = 0;                 // of these
    bool finished_ = true;
    std::atomic<bool> failed_{false};
    std::mutex mutex_;  // of handed_, next_ and finished_
    std::condition_variable more_;
    twin::ThreadPool pool_;  // last, so that its threads end first
};

}  // namespace arcbeam
