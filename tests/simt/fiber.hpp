// Fibers: many stacks on one operating-system thread, and a switch between them.
#pragma once

#include <cstddef>
#include <vector>

#if !defined(__x86_64__) || defined(ARCBEAM_EMULATOR_UCONTEXT)
#define ARCBEAM_FIBER_UCONTEXT 1
#include <ucontext.h>
#else
#define ARCBEAM_FIBER_UCONTEXT 0
#endif

namespace arcbeam::emulator {

struct Fiber {
#if ARCBEAM_FIBER_UCONTEXT
    ucontext_t context;
#else
    void* stack_pointer = nullptr;
#endif
};

// Below each stack lies a page that faults, so that an overflow is no riddle. As many stacks as most launches take
// are kept from launch to launch. Each costs two of the mappings that a process may have, and each library has a
// pool. No two stacks begin at the same offset: those of a block would share a few sets of the caches.
class StackPool {
  public:
    static constexpr std::size_t kStackBytes = 256U * 1024U;
    StackPool() = default;
    StackPool(const StackPool&) = delete;
    StackPool& operator=(const StackPool&) = delete;
    ~StackPool();
    unsigned char* stack(std::size_t index);  // lowest address that may be used
    void give_back();                         // those beyond what is kept, after a launch

  private:
    static constexpr std::size_t kPerChunk = 64U;
    static constexpr std::size_t kKeptChunks = 8U;
    std::vector<unsigned char*> chunks_;
};

// Makes a fiber that runs entry(), which never returns, on the first switch to it.
void make_fiber(Fiber& fiber, unsigned char* stack, void (*entry)());

// Saves where this fiber stands in `from` and goes on where `to` stands.
void switch_fiber(Fiber& from, Fiber& to);

}  // namespace arcbeam::emulator
