// What the emulated wrappers need of the machine that runs them, and how a test launches a kernel on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace arcbeam::simt {
enum class Scope : std::uint8_t;
enum class Order : std::uint8_t;
}  // namespace arcbeam::simt

namespace arcbeam::emulator {

using simt::Order;
using simt::Scope;

// The line of a kernel that called a wrapper; in one word, for the race detector keeps millions. 0: unknown.
struct Site {
    std::uint64_t bits = 0;

    static Site here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
        return Site{reinterpret_cast<std::uintptr_t>(file) | static_cast<std::uint64_t>(line) << 48U};
    }
    std::string text() const;
};

// ---- launching

enum class Policy : std::uint32_t {
    random,   // any thread, at every scheduling point
    ahead,    // one thread runs far ahead of the others, then another
    forward,  // the lowest thread that can run
    reverse,  // the highest
    warp,     // warp by warp
};

struct Region {  // global memory that kernels may touch
    const void* base;
    std::size_t bytes;
    const char* name;
};

// Who acts on the host while a kernel runs: its thread, or an engine that makes copies in their order.
enum class Agent : std::uint32_t { thread, copies, copies_even, copies_odd };
constexpr std::uint32_t kNumAgents = 4U;

enum class Writes : std::uint32_t { bytes, relaxed_word, released_word };

struct FromHost {  // what Agent::copies copies while the kernel runs, at a scheduling point
    std::uint64_t step;
    void* to;
    const void* from;
    std::size_t bytes;
    Writes writes;  // released: as by a copy that waits for an event after those before it
};

struct Launch {
    std::uint32_t grid = 1;
    std::uint32_t block = 32;
    std::uint32_t cluster = 1;
    std::uint32_t shared_bytes = 0;
    std::uint32_t resident = 0;  // blocks that run at the same time; 0 for all
    std::uint32_t detect_races = 1;
    std::uint32_t detect_hazards = 1;
    Policy policy = Policy::random;
    std::uint32_t num_regions = 0;  // 0: global memory is not checked for bounds
    const Region* regions = nullptr;
    std::uint64_t seed = 0;
    std::uint64_t max_steps = 50'000'000;  // scheduling points after which a launch counts as stuck; plain
                                           // accesses between two of them, too
    std::size_t num_copies = 0;
    const FromHost* copies = nullptr;  // in the order of their steps
    void (*host)(void*) = nullptr;     // what the host does meanwhile, on the stack of a thread of the kernel,
    void* host_context = nullptr;
    std::uint64_t host_every = 0;  // so many scheduling points
};

// A bug in the kernel: a race, a deadlock, a divergent barrier, an access out of bounds. Says who, where and what.
struct KernelError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Runs a kernel to its end; gives the number of scheduling points. Throws KernelError; invalid_argument for a
// launch that no device would take. One launch at a time in a process: others wait.
std::uint64_t launch(const char* kernel, const Launch& options, const void* params, std::size_t params_bytes);

struct Registration {
    Registration(const char* name, std::uint32_t max_threads, std::size_t params_bytes, void (*entry)(const void*));
};

// ---- the running thread, as the wrappers see it

struct Position {
    std::uint32_t thread;  // in its block
    std::uint32_t block;   // in the grid
    std::uint32_t block_size;
    std::uint32_t grid_size;
    std::uint32_t cluster_size;
    std::uint32_t shared_bytes;
    unsigned char* shared;
};
extern Position position;  // of the running thread

enum class Together : std::uint8_t { sync, shuffle, ballot, any, all, match, min, max, add, bit_or, multiply };
enum class Vote : std::uint8_t { none, count, any, all };
// An exchange is an update that may not want what was there.
enum class Access : std::uint8_t { read, write, read_only, atomic_load, atomic_store, atomic_update, exchange };

std::uint64_t warp_operation(Together what, std::uint32_t mask, std::uint64_t value, std::uint32_t source,
                             Site site);
// What a lane holds of a product of matrices; its address is the value that it brings to Together::multiply.
struct Fragments {
    std::uint32_t a[4];
    std::uint32_t b[2];
    float sum[4];
};

std::uint32_t block_barrier(Vote vote, bool value, Site site);
void named_barrier(std::uint32_t id, std::uint32_t threads, bool waits, Site site);
void cluster_arrive(Site site);
void cluster_wait(Site site);
void* map_shared(const void* address, std::uint32_t rank, Site site);

// Called before the access itself; nothing else runs between this and the access. `value`: what a store will write.
void plain_access(Access what, const void* address, std::uint32_t bytes, Site site, const void* value = nullptr);
void atomic_access(Access what, const void* address, std::uint32_t bytes, Scope scope, Order order, Site site,
                   const void* value = nullptr);
void fence(Scope scope, Site site);

void copy_async(void* shared, const void* global, std::uint32_t bytes, Site site);
void copy_commit();
void copy_wait(std::uint32_t groups, Site site);

void sleep(Site site);
std::uint64_t cycles(Site site);
std::uint64_t garbage();  // some bits, the same for the same seed and schedule

[[noreturn]] void fail(const std::string& message);

// ---- the host while a kernel runs; see emulated_host.hpp. Nothing is checked while none does.

// Called before the access itself. `atomic`: of 4 or 8 bytes, at system scope.
void host_access(Agent agent, Access what, const void* address, std::size_t bytes, Order order, Site site);
// `agent` begins what `other` does, or `other` waits for it.
void host_follow(Agent agent, Agent other);

}  // namespace arcbeam::emulator
