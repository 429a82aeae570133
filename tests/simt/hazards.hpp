// Looks at shared memory with the eyes of compute-sanitizer's racecheck, which has to find nothing either: two
// accesses to a byte by two threads, one of them a write, with no barrier or warp_sync between, whatever else
// orders them. A relaxed load or store counts as a plain one. An atomic update may meet loads and other updates,
// and stores may meet that leave the same value.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "clocks.hpp"

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
    static constexpr std::uintptr_t kPageBytes = 1024U;
    struct Page {
        Word words[kPageBytes / 4U];
    };
    Word& word(std::uintptr_t address);
    const Mark* find(const std::vector<Mark>& marks, const Mark& now) const;
    void record(std::vector<Mark>& marks, const Mark& now) const;

    std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
    struct {
        std::uintptr_t number = ~std::uintptr_t{0};
        Page* page = nullptr;
    } recent_[64];
};

}  // namespace arcbeam::emulator
