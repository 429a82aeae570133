// Makes lattices of what kernels have written to the pool and has them answered, on threads of the host, while
// other lanes decode.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "decode/lattice_room.hpp"
#include "graph/open_graph.hpp"
#include "lattice/lattice.hpp"
#include "lattice/lattice_pool.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam {

// An utterance of a window whose lattice has not been numbered yet.
struct PendingLattice {
    const LatticeResult* result;
    lattice::Lattice* into;         // null: it is answered, and not kept
    const NewWordsView* new_words;  // null: none
    std::size_t utterance;          // of the batch that the pool answers
};

// For each window begin(), finish(), and wait() until it is true. In between, for each launch, start(), poll() as
// often as one likes, and wait_for_numbers() until it is true. These are calls of one thread.
class Numberer {
  public:
    // The pool, the columns of the graph and of new words, and what the lattices point to must stay until the last
    // wait().
    void begin(lattice::LatticePool& pool, const GraphView& graph, std::vector<PendingLattice> pending);

    // A launch writes to `memory`.
    void start(const unsigned char* memory) { memory_ = memory; }

    // Hands those that have been written since the last poll to the threads.
    void poll();

    // Waits at most `milliseconds`; says whether no thread reads the launch's memory any more.
    bool wait_for_numbers(int milliseconds);

    // No more will be handed over.
    void finish();

    // Waits at most `milliseconds`; says whether all are made and answered that have been handed over.
    bool wait(int milliseconds) { return pool_->wait(milliseconds); }

    // Those that have not been answered yet will not be.
    void cancel() { pool_->cancel(); }

    // Whether memory ran out; call it once all are made.
    [[nodiscard]] bool failed() const { return failed_; }

  private:
    void work(std::size_t worker);
    void make(std::size_t worker, const PendingLattice& pending);
    void note_number();

    lattice::LatticePool* pool_ = nullptr;
    GraphView graph_{};
    const unsigned char* memory_ = nullptr;
    std::vector<PendingLattice> pending_;  // and not handed over yet
    std::vector<PendingLattice> handed_;
    std::size_t next_ = 0;      // of these
    std::size_t numbered_ = 0;  // how many of these
    bool finished_ = true;
    std::atomic<bool> failed_{false};
    std::mutex mutex_;  // of handed_, next_, numbered_ and finished_
    std::condition_variable more_;
    std::condition_variable all_numbered_;
};

}  // namespace arcbeam
