// Looks at shared memory with the eyes of compute-sanitizer's racecheck, which has to find nothing either: two
// accesses to a byte by two threads, one of them a write, with no barrier or warp_sync between, whatever else
// orders them. A relaxed load or store counts as a plain one. An atomic update may meet loads and other updates,
// and stores may meet that leave the same value.
#pragma once

#include <optional>
#include <vector>

#include "clocks.hpp"
#include "shadow.hpp"

namespace arcbeam::emulator {

struct Hazard {
    const char* earlier;  // what the other access was
    Mark other;
};

class Hazards : public Clocks {
  public:
    using Clocks::Clocks;

    // `value`: what a store is about to write, null if that is not known.
    std::optional<Hazard> access(std::uint32_t thread, Access what, const void* address, std::uint32_t bytes,
                                 const void* value, Site site);

  private:
    struct Word {
        std::vector<Mark> writes, reads, updates;
    };
    const Mark* find(const std::vector<Mark>& marks, const Mark& now) const;
    void record(std::vector<Mark>& marks, const Mark& now) const;

    Shadow<Word> words_;
};

}  // namespace arcbeam::emulator
