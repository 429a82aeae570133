// Finds data races by happens-before: two accesses to a byte of which one writes, at least one of them plain (or
// not atomic for the other's scope), and no chain of barriers, warp_sync or release and acquire between them. It
// reports such a pair whatever the values turned out to be, so a missing barrier shows in nearly every schedule.
//
// Release and acquire follow C++ (and PTX) with scopes: what block b released is seen only if both sides' scopes
// include the other.
//
// What the host does while the kernel runs is done by agents: its thread, and engines that copy. Each is a thread
// of the model with a clock of its own. Only system scope includes an agent, and agents always act with system
// scope.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "clocks.hpp"
#include "shadow.hpp"

namespace arcbeam::emulator {

struct Trouble {
    enum class Kind : std::uint8_t { none, race, uninitialised, written_read_only, unfinished_copy };
    Kind kind = Kind::none;
    const char* earlier = "";  // what the other access was
    Mark other;
};

class Races : public Clocks {
  public:
    Races(std::uint32_t num_threads, std::uint32_t block_size, std::uint32_t cluster_size);

    // Fresh memory: reading a byte that nobody wrote is an error. Other memory came with the launch.
    Trouble access(std::uint32_t thread, Access what, std::uintptr_t address, std::uint32_t bytes, Scope scope,
                   Site site, bool fresh);
    // The order side of an atomic access, after its `access`.
    void order(std::uint32_t thread, Access what, std::uintptr_t address, Scope scope, Order order);
    void fence(std::uint32_t thread, Scope scope);
    // One agent of the host begins something for another, or waits for it: the other goes on knowing what it knows.
    void follow(std::uint32_t thread, std::uint32_t other);
    [[nodiscard]] std::uint32_t thread_of(Agent agent) const {
        return num_threads_ - kNumAgents + static_cast<std::uint32_t>(agent);
    }

    void start_copy(std::uintptr_t address, std::uint32_t bytes);
    void end_copy(std::uintptr_t address, std::uint32_t bytes);

  private:
    static constexpr std::uint32_t kNoBlock = ~0U, kSeveral = ~0U - 1U;
    struct History {  // what does not fit a word's two marks
        std::vector<Mark> writes, reads, atomic_reads, atomic_writes;
        std::uint8_t narrowest = 0xff;   // scope of the atomics
        std::uint32_t block = kNoBlock;  // of all atomics so far, kSeveral once they differ
        bool by_host = false;            // some of them
    };
    struct Word {
        Mark write, read;
        std::unique_ptr<History> more;
        std::uint8_t written = 0, read_only = 0, copying = 0;
    };
    struct Release {
        Scope scope;
        std::uint32_t block;
        Clock told;
    };
    struct Fences {  // by scope; empty where there was none
        Clock released[4];
        Clock pending[4];
    };

    // Of a thread; every agent of the host counts as a block of its own.
    std::uint32_t block_of(std::uint32_t thread) const;
    bool is_host(std::uint32_t block) const { return block >= num_blocks_; }
    Scope distance(std::uint32_t block_a, std::uint32_t block_b) const;
    bool narrow(const Mark& a, const Mark& b) const;
    Trouble find(const std::vector<Mark>& marks, const Mark& now, const char* earlier) const;
    Trouble find_narrow(const std::vector<Mark>& marks, const Mark& now, const char* earlier) const;
    Trouble check(Word& word, Access what, const Mark& now) const;
    void record(Word& word, Access what, const Mark& now);
    void append(std::vector<Mark>& marks, const Mark& now) const;
    void release(std::uint32_t thread, std::vector<Release>& releases, Scope scope, const std::uint32_t* told);

    std::uint32_t block_size_, cluster_size_, num_blocks_;
    Shadow<Word> words_;
    std::unordered_map<std::uintptr_t, std::vector<Release>> releases_;
    std::vector<std::unique_ptr<Fences>> fences_;
};

}  // namespace arcbeam::emulator
