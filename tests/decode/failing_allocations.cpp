// An allocator of C++ for LD_PRELOAD, whose n-th allocation fails in the thread that makes it.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local long to_go = -1;  // allocations before the one that fails; below 0: none will
}  // namespace

extern "C" void fail_allocation(long n) { to_go = n; }

// How many were to go still; below 0 once it has failed.
extern "C" long allocations_to_go() {
    const long left = to_go;
    to_go = -1;
    return left;
}

void* operator new(std::size_t size) {
    if (to_go >= 0 && to_go-- == 0) {
        throw std::bad_alloc();
    }
    if (void* const memory = std::malloc(size != 0 ? size : 1)) {
        return memory;
    }
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
