// The threads on which the lattices of a batch are made and answered, as the code sees them that makes lattices: an
// interface, because the code of answers is elsewhere.
#pragma once

#include <cstddef>
#include <functional>

#include "lattice/lattice.hpp"

namespace arcbeam::lattice {

class LatticePool {
  public:
    LatticePool() = default;
    virtual ~LatticePool() = default;
    LatticePool(const LatticePool&) = delete;
    LatticePool& operator=(const LatticePool&) = delete;

    // Calls job(worker) on at most so many threads; the job before must have ended. It must not throw.
    virtual void run(std::size_t most, std::function<void(std::size_t worker)> job) = 0;

    // Waits for the job's end, at most `milliseconds`; returns whether it has ended.
    virtual bool wait(int milliseconds) = 0;

    // Answers what the batch asks of an utterance, and nothing once it has been cancelled. A worker of the job
    // calls this, once for each utterance; it does not throw.
    virtual void answer(std::size_t worker, std::size_t utterance, const Lattice& lattice) = 0;
    virtual void cancel() = 0;
};

}  // namespace arcbeam::lattice
