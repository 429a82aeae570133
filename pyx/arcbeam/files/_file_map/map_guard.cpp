#include "arcbeam/files/_file_map/map_guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace arcbeam {

struct Guard {
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};  // 0: free
    std::atomic<bool> broken{false};
};

namespace {

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
                  std::atomic<void*>::is_always_lock_free,
              "a signal handler reads them");

struct Chunk {
    Guard guards[256];
    std::atomic<Chunk*> next{nullptr};
};

Chunk first_chunk;
std::mutex changes;
const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
struct sigaction before = {};
std::atomic<bool> passed_on{false};  // since our handler was installed

void on_bus_error(int signal, siginfo_t* info, void*);

void set_ours() {
    struct sigaction ours = {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    passed_on = false;
    sigaction(SIGBUS, &ours, nullptr);
}

// A handler that was installed between two of our installations has ours as its predecessor and may call it again.
// In that case the default handler is installed.
void set_before() {
    struct sigaction fallback = {};
    fallback.sa_handler = SIG_DFL;
    sigaction(SIGBUS, passed_on.exchange(true) ? &fallback : &before, nullptr);
}

// The end of the guarded map that contains an address; 0 if this guard's map does not. Another thread may be
// reusing the guard for another map, so the bounds are valid only if `begin` is the same before and after.
std::uintptr_t end_around(const Guard& guard, std::uintptr_t address) {
    for (;;) {
        const std::uintptr_t begin = guard.begin;
        const std::uintptr_t end = guard.end;
        if (begin == guard.begin) return address >= begin && address < end ? end : 0;
    }
}

// Whether one of our maps has lost the page of this address. If so, this page and all later ones of the map read as
// zeros from now on. One mapping covers them all, because each page would otherwise cost a signal and a mapping, of
// which a process may have only so many.
bool put_zeros(std::uintptr_t address) {
    for (Chunk* chunk = &first_chunk; chunk != nullptr; chunk = chunk->next) {
        for (Guard& guard : chunk->guards) {
            const std::uintptr_t end = end_around(guard, address);
            if (end == 0) continue;
            const std::uintptr_t page = address / page_size * page_size;
            void* const zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
            if (zeros == MAP_FAILED) return false;
            guard.broken = true;
            return true;
        }
    }
    return false;
}

void on_bus_error(int signal, siginfo_t* info, void*) {
    if (info->si_code <= 0 || info->si_code == SI_USER) {  // sent by a process: no access will be repeated
        set_before();
        raise(signal);
        set_ours();
        return;
    }
    const int interrupted = errno;
    const bool done = put_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr));
    errno = interrupted;
    if (!done) set_before();  // not our map: the access is repeated and meets the previous handler
}

void install() {
    struct sigaction current = {};
    sigaction(SIGBUS, nullptr, &current);
    if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_bus_error) return;
    before = current;
    set_ours();
}

Guard* free_guard() {
    for (Chunk* chunk = &first_chunk;; chunk = chunk->next) {
        for (Guard& guard : chunk->guards) {
            if (guard.end == 0) return &guard;
        }
        if (chunk->next == nullptr) chunk->next = new Chunk;
    }
}

}  // namespace

Guard* guard_map(const void* address, std::size_t size) {
    const std::lock_guard<std::mutex> lock(changes);
    install();
    Guard* const guard = free_guard();
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    guard->broken = false;
    guard->begin = begin;
    guard->end = (begin + size + page_size - 1) / page_size * page_size;
    return guard;
}

bool is_broken(const Guard* guard) { return guard->broken; }

void release_guard(Guard* guard) {
    const std::lock_guard<std::mutex> lock(changes);
    guard->end = 0;
    guard->begin = 0;
}

}  // namespace arcbeam
