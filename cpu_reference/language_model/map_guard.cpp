#include "language_model/map_guard.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace arcbeam {

namespace {

struct Guard {
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};  // 0: free
    std::atomic<bool> broken{false};
};

Guard guards[kMostGuards];
std::mutex changes;
std::uintptr_t page_size = 0;
struct sigaction before = {};
std::atomic<bool> passed_on{false};  // since ours was installed

void on_bus_error(int signal, siginfo_t* info, void*);

void set_ours() {
    struct sigaction ours = {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    passed_on = false;
    sigaction(SIGBUS, &ours, nullptr);
}

// Who was installed between two of our installations has ours as the handler before it, and may come back to it:
// then the default is what is left.
void set_before() {
    struct sigaction fallback = {};
    fallback.sa_handler = SIG_DFL;
    sigaction(SIGBUS, passed_on.exchange(true) ? &fallback : &before, nullptr);
}

void on_bus_error(int signal, siginfo_t* info, void*) {
    if (info->si_code <= 0 || info->si_code == SI_USER) {  // sent by a process: no access will repeat it
        set_before();
        raise(signal);
        set_ours();
        return;
    }
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (Guard& guard : guards) {
        if (address < guard.begin || address >= guard.end) continue;
        void* const page = reinterpret_cast<void*>(address / page_size * page_size);
        if (mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) break;
        guard.broken = true;
        return;
    }
    set_before();  // not ours: the access is repeated and meets the handler before
}

void install() {
    page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction current = {};
    sigaction(SIGBUS, nullptr, &current);
    if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_bus_error) return;
    before = current;
    set_ours();
}

}  // namespace

std::size_t guard_map(const void* address, std::size_t size) {
    const std::lock_guard<std::mutex> lock(changes);
    install();
    for (std::size_t i = 0; i < kMostGuards; ++i) {
        if (guards[i].end != 0) continue;
        guards[i].broken = false;
        guards[i].begin = reinterpret_cast<std::uintptr_t>(address);
        guards[i].end = reinterpret_cast<std::uintptr_t>(address) + size;
        return i;
    }
    return kMostGuards;
}

bool is_broken(std::size_t handle) { return handle < kMostGuards && guards[handle].broken; }

void release_guard(std::size_t handle) {
    if (handle >= kMostGuards) return;
    const std::lock_guard<std::mutex> lock(changes);
    guards[handle].end = 0;
    guards[handle].begin = 0;
}

}  // namespace arcbeam
