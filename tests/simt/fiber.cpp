#include "fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace arcbeam::emulator {
namespace {

constexpr std::size_t kGuardBytes = 64U * 1024U;  // at least a page, whatever its size
constexpr std::size_t kOffsets = 128U * 1024U;
constexpr std::size_t kStride = StackPool::kStackBytes + kOffsets + kGuardBytes;
constexpr std::size_t kOffset = 81U * 64U;  // an odd number of lines of a cache, and another page each time

}  // namespace

StackPool::~StackPool() {
    for (unsigned char* chunk : chunks_) munmap(chunk, kPerChunk * kStride);
}

unsigned char* StackPool::stack(std::size_t index) {
    while (index / kPerChunk >= chunks_.size()) {
        void* const chunk = mmap(nullptr, kPerChunk * kStride, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (chunk == MAP_FAILED) std::abort();
        auto* const base = static_cast<unsigned char*>(chunk);
        for (std::size_t i = 0; i < kPerChunk; ++i) mprotect(base + i * kStride, kGuardBytes, PROT_NONE);
        chunks_.push_back(base);
    }
    return chunks_[index / kPerChunk] + index % kPerChunk * kStride + kGuardBytes + index * kOffset % kOffsets;
}

void StackPool::give_back() {
    for (; chunks_.size() > kKeptChunks; chunks_.pop_back()) munmap(chunks_.back(), kPerChunk * kStride);
}

#if ARCBEAM_FIBER_UCONTEXT

void make_fiber(Fiber& fiber, unsigned char* stack, void (*entry)()) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = StackPool::kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
}

void switch_fiber(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

#else

// swapcontext reads the signal mask from the kernel at every switch; this keeps to what the calling convention
// saves.
asm(R"(
.text
.p2align 4
.type arcbeam_switch_stack, @function
arcbeam_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size arcbeam_switch_stack, .-arcbeam_switch_stack
)");
extern "C" void arcbeam_switch_stack(void** from, void* to);

void make_fiber(Fiber& fiber, unsigned char* stack, void (*entry)()) {
    // As if entry had been called from nowhere: six saved registers, its address, and a return address of
    // zero, which leaves the stack as aligned as a call does.
    auto* top = reinterpret_cast<std::uintptr_t*>(stack + StackPool::kStackBytes);
    *--top = 0U;
    *--top = reinterpret_cast<std::uintptr_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0U;
    fiber.stack_pointer = top;
}

void switch_fiber(Fiber& from, Fiber& to) { arcbeam_switch_stack(&from.stack_pointer, to.stack_pointer); }

#endif

}  // namespace arcbeam::emulator
