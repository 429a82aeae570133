// The emulated device while one kernel runs: its threads, blocks and clusters, and who may run next.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fiber.hpp"
#include "hazards.hpp"
#include "races.hpp"
#include "runtime.hpp"

namespace arcbeam::emulator {

class Random {  // splitmix64: the same on every machine, unlike the library's distributions
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31U);
    }
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>((next() >> 32U) * bound >> 32U); }

  private:
    std::uint64_t state_;
};

struct Copy {
    unsigned char* shared;
    const unsigned char* global;
    std::uint32_t bytes;
    Site site;
};

struct Thread {
    Fiber fiber;
    Position position;
    std::uint32_t id = 0;  // in the grid
    enum class State : std::uint8_t { unborn, ready, waiting, ended } state = State::unborn;
    bool cluster_arrived = false;
    std::uint64_t cluster_phase = 0;  // when it arrived
    const char* doing = "start";
    Site site;
    std::uint32_t mask = 0;                 // of the warp operation it waits in
    std::uint64_t result = 0;               // of what it waited for
    std::vector<std::vector<Copy>> copies;  // committed groups, oldest first
    std::vector<Copy> open_copies;
};

// Lanes that have come to one warp operation.
struct Rendezvous {
    Together what;
    Site site;
    std::uint32_t mask;
    std::uint32_t arrived = 0;
    std::uint64_t values[32];
    std::uint32_t sources[32];
};

// What threads have told each other, for each detector.
struct Told {
    Clock races, hazards;
};

struct NamedBarrier {
    std::uint32_t threads = 0;
    std::uint32_t arrived = 0;
    std::vector<std::uint32_t> waiting;
    Told told;
};

struct Warp {
    std::uint32_t living = 0;  // lanes
    std::vector<Rendezvous> open;
};

struct Block {
    std::uint32_t ended = 0;
    std::uint32_t arrived = 0;  // at the barrier
    std::uint32_t votes = 0;
    Vote vote = Vote::none;
    Site site;
    std::vector<Warp> warps;
    NamedBarrier named[16];
    unsigned char* shared = nullptr;
};

struct Cluster {
    std::uint32_t arrived = 0, ended = 0;
    std::uint64_t phase = 0;
    Told telling, told;
};

struct Kernel {
    std::string name;
    std::uint32_t max_threads;
    std::size_t params_bytes;
    void (*entry)(const void*);
};

class Machine {
  public:
    Machine(const Kernel& kernel, const Launch& options, const void* params, StackPool& stacks);
    std::uint64_t run();

    // Of the running thread.
    Thread& self() { return *self_; }
    Block& block() { return blocks_[self_->position.block]; }
    Cluster& cluster() { return clusters_[self_->position.block / options_.cluster]; }
    std::uint32_t first_thread_of_block() const { return self_->position.block * options_.block; }

    void point(const char* doing, Site site);  // another thread may run here
    void wait(const char* doing, Site site);   // another thread runs until somebody wakes this one
    void wake(std::uint32_t thread);
    void yield();  // another thread runs if one can, whatever the policy
    [[noreturn]] void fail(const std::string& message);
    [[noreturn]] void end_thread();

    std::string who(const Thread& thread) const;
    std::string who(std::uint32_t thread, Site site) const;  // and where; also of agents of the host
    std::string where(const void* address) const;
    std::string standing() const;               // who waits where
    void count_access(Access what, Site site);  // a plain one
    void check_memory(Access what, const void* address, std::uint32_t bytes, Scope scope, Site site,
                      const void* value = nullptr);
    void host_access(Agent agent, Access what, const void* address, std::size_t bytes, Order order, Site site);
    // The detectors are told of who has met whom; see Clocks.
    void meet(const std::vector<std::uint32_t>& threads);
    void tell(std::uint32_t thread, Told& told);
    void hear(std::uint32_t thread, const Told& told);
    void finish_copies(Thread& thread, std::size_t keep);

    const Launch& options() const { return options_; }
    const Kernel& kernel() const { return kernel_; }
    const void* params() const { return params_; }
    std::uint64_t steps() const { return steps_; }
    Races* races() { return races_ ? &*races_ : nullptr; }
    Random& random() { return random_; }
    Thread& thread(std::uint32_t id) { return threads_[id]; }
    Block& block(std::uint32_t rank) { return blocks_[rank]; }
    std::optional<std::uint32_t> block_of_shared(const void* address) const;

  private:
    static constexpr std::uint32_t kMaxBurst = 4096U;

    void start_cluster();
    void add_ready(std::uint32_t thread);
    void remove_ready(std::uint32_t thread);
    std::uint32_t pick();
    std::uint32_t first_ready() const;
    std::uint32_t last_ready() const;
    void go_on();  // leaves the running thread for the next one
    void step();   // counts a scheduling point; copies from the host are made here
    void check_guards();
    void check_order(std::uint32_t thread, Access what, const void* address, std::uint32_t bytes, Scope scope,
                     Site site, bool fresh);

    Kernel kernel_;
    Launch options_;
    const void* params_;
    StackPool& stacks_;
    Random random_;
    std::vector<Thread> threads_;
    std::vector<Block> blocks_;
    std::vector<Cluster> clusters_;
    std::optional<Races> races_;
    std::optional<Hazards> hazards_;
    std::uint32_t started_clusters_ = 0, ended_threads_ = 0;
    std::vector<std::uint32_t> ready_, place_;  // who can run; each one's place in it
    std::vector<std::uint64_t> ready_bits_;     // the same, a bit a thread
    std::uint32_t favourite_ = ~0U, burst_ = kMaxBurst;
    std::uint64_t steps_ = 0;
    std::uint64_t accesses_ = 0;  // plain ones since the last scheduling point
    std::size_t copies_made_ = 0;
    Thread* self_ = nullptr;
    Fiber main_;
    std::string error_;
    bool failed_ = false;

    std::vector<unsigned char> shared_memory_;  // of all blocks, with guards between
    unsigned char* shared_base_ = nullptr;
    std::size_t shared_stride_ = 0;
    std::vector<Region> regions_;  // sorted by address
};

extern Machine* machine;  // while a kernel runs

}  // namespace arcbeam::emulator
