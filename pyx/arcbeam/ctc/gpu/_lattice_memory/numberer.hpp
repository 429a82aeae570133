// Makes lattices of what kernels have written to the pool, on threads of the host.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "decode/lattice_room.hpp"
#include "lattice/lattice.hpp"
#include "pool/thread_pool.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam {

// An utterance whose lattice lies in the pool.
struct WrittenLattice {
    const unsigned char* memory;  // of the pool
    LatticeResult place;
    double total_cost;
    bool reached_final;
    bool complete;
    lattice::Lattice* into;
};

class Numberer {
  public:
    explicit Numberer(std::size_t threads) : pool_(threads) {}

    // Starts; the graph's columns and what the lattices point to must stay until wait() returns true.
    void start(const GraphView& graph, std::vector<WrittenLattice> written);

    // Waits at most `milliseconds`; says whether all are made.
    bool wait(int milliseconds);

    // Whether memory ran out; asked once all are made.
    [[nodiscard]] bool failed() const { return failed_; }

  private:
    GraphView graph_{};
    std::vector<WrittenLattice> written_;
    std::atomic<bool> failed_{false};
    twin::ThreadPool pool_;  // last, so that its threads end first
};

}  // namespace arcbeam
