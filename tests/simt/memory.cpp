// Every access of a kernel: within bounds, aligned, ordered.
#include <algorithm>
#include <cstring>

#include "machine.hpp"
#include "shared/simt.cuh"

namespace arcbeam::emulator {
namespace {

const char* name_of(Access what) {
    static const char* const names[] = {"read",         "write",         "read-only load", "atomic load",
                                        "atomic store", "atomic update", "exchange"};
    return names[static_cast<int>(what)];
}

bool within(const unsigned char* address, std::uint32_t bytes, const void* base, std::size_t size) {
    const auto* const first = static_cast<const unsigned char*>(base);
    return address >= first && address + bytes <= first + size;
}

}  // namespace

// The block whose shared memory, or the guard before or after it, holds the address.
std::optional<std::uint32_t> Machine::block_of_shared(const void* address) const {
    const auto* const byte = static_cast<const unsigned char*>(address);
    if (within(byte, 1U, position.shared, options_.shared_bytes)) return position.block;
    if (byte < shared_memory_.data() || byte >= shared_memory_.data() + shared_memory_.size()) return {};
    if (byte < shared_base_) return 0U;
    const auto rank = static_cast<std::uint32_t>(static_cast<std::size_t>(byte - shared_base_) / shared_stride_);
    return std::min(rank, options_.grid - 1U);
}

std::string Machine::where(const void* address) const {
    const auto* const byte = static_cast<const unsigned char*>(address);
    if (const auto rank = block_of_shared(address)) {
        return "shared memory of block " + std::to_string(*rank) + " at " +
               std::to_string(byte - blocks_[*rank].shared);
    }
    for (const Region& region : regions_) {
        if (within(byte, 1U, region.base, region.bytes)) {
            return std::string(region.name) + " at " +
                   std::to_string(byte - static_cast<const unsigned char*>(region.base));
        }
    }
    return "global memory";
}

void Machine::check_guards() {
    for (std::uint32_t b = 0; b < options_.grid; ++b) {
        for (std::size_t i = options_.shared_bytes; i < shared_stride_; ++i) {
            if (blocks_[b].shared[i] != 0xa5U) {
                throw KernelError(kernel_.name + ": out of bounds: something wrote without a wrapper to byte " +
                                  std::to_string(i) + " of the " + std::to_string(options_.shared_bytes) +
                                  " bytes of shared memory of block " + std::to_string(b));
            }
        }
    }
}

// A thread that goes around in plain accesses alone comes to no scheduling point.
void Machine::count_access(Access what, Site site) {
    if (++accesses_ > options_.max_steps) {
        fail("no end after " + std::to_string(options_.max_steps) +
             " plain accesses, the last one: " + name_of(what) + " by " + who(self().id, site));
    }
}

void Machine::check_memory(Access what, const void* address, std::uint32_t bytes, Scope scope, Site site,
                           const void* value) {
    const auto* const byte = static_cast<const unsigned char*>(address);
    const auto complain = [&](const std::string& kind) {
        fail(kind + ": " + name_of(what) + " of " + std::to_string(bytes) + " bytes of " + where(address) + " by " +
             who(self().id, site));
    };
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    const auto rank = block_of_shared(address);
    if (rank) {
        if (!within(byte, bytes, blocks_[*rank].shared, options_.shared_bytes)) {
            complain("out of bounds of " + std::to_string(options_.shared_bytes) + " bytes");
        }
        const std::uint32_t mine = self().position.block;
        if (what == Access::read_only) complain("not global memory");
        if (*rank != mine) {
            if (*rank / options_.cluster != mine / options_.cluster) complain("shared memory of another cluster");
            if (blocks_[*rank].ended == options_.block) complain("shared memory of a block that has ended");
            if (races_ && !races_->knows(self().id, *rank * options_.block)) {
                complain("no cluster barrier since the other block started");
            }
        }
    } else if (!regions_.empty()) {
        const auto after = std::upper_bound(regions_.begin(), regions_.end(), address,
                                            [](const void* a, const Region& region) { return a < region.base; });
        if (after == regions_.begin() || !within(byte, bytes, std::prev(after)->base, std::prev(after)->bytes)) {
            complain("out of bounds");
        }
    }
    if (number % bytes != 0U) complain("misaligned");
    if (!races_) return;
    check_order(self().id, what, address, bytes, scope, site, rank.has_value());
    if (!hazards_ || !rank) return;
    if (const auto hazard = hazards_->access(self().id, what, address, bytes, value, site)) {
        fail("hazard: " + std::string(name_of(what)) + " of " + std::to_string(bytes) + " bytes of " +
             where(address) + " by " + who(self().id, site) + ", no barrier since the " + hazard->earlier + " by " +
             who(hazard->other.thread, hazard->other.site));
    }
}

// By a thread of the kernel or an agent of the host.
void Machine::check_order(std::uint32_t thread, Access what, const void* address, std::uint32_t bytes, Scope scope,
                          Site site, bool fresh) {
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    const Trouble trouble = races_->access(thread, what, number, bytes, scope, site, fresh);
    const auto complain = [&](const std::string& kind, const std::string& other = "") {
        fail(kind + ": " + name_of(what) + " of " + std::to_string(bytes) + " bytes of " + where(address) + " by " +
             who(thread, site) + other);
    };
    switch (trouble.kind) {
        case Trouble::Kind::none:
            return;
        case Trouble::Kind::uninitialised:
            complain("uninitialised");
            return;
        case Trouble::Kind::written_read_only:
            complain("read-only data is written in this launch");
            return;
        case Trouble::Kind::unfinished_copy:
            complain("asynchronous copy not finished");
            return;
        case Trouble::Kind::race:
            complain("race", std::string(", unordered with the ") + trouble.earlier + " by " +
                                 who(trouble.other.thread, trouble.other.site));
    }
}

void Machine::host_access(Agent agent, Access what, const void* address, std::size_t bytes, Order order,
                          Site site) {
    if (!races_) return;
    const std::uint32_t thread = races_->thread_of(agent);
    check_order(thread, what, address, static_cast<std::uint32_t>(bytes), Scope::system, site, false);
    if (what == Access::read || what == Access::write) return;
    races_->order(thread, what, reinterpret_cast<std::uintptr_t>(address), Scope::system, order);
}

void host_access(Agent agent, Access what, const void* address, std::size_t bytes, Order order, Site site) {
    if (machine != nullptr) machine->host_access(agent, what, address, bytes, order, site);
}

void host_follow(Agent agent, Agent other) {
    if (machine == nullptr || machine->races() == nullptr) return;
    Races& races = *machine->races();
    races.follow(races.thread_of(agent), races.thread_of(other));
}

void Machine::meet(const std::vector<std::uint32_t>& threads) {
    if (races_) races_->meet(threads);
    if (hazards_) hazards_->meet(threads);
}

void Machine::tell(std::uint32_t thread, Told& told) {
    if (races_) races_->tell(thread, told.races);
    if (hazards_) hazards_->tell(thread, told.hazards);
}

void Machine::hear(std::uint32_t thread, const Told& told) {
    if (races_) races_->hear(thread, told.races);
    if (hazards_) hazards_->hear(thread, told.hazards);
}

// Nothing but the order in which threads reach barriers and atomics can change what race-free plain accesses see,
// so they need no scheduling point. Without the detector they are points, and a race shows as changed bytes.
void plain_access(Access what, const void* address, std::uint32_t bytes, Site site, const void* value) {
    machine->count_access(what, site);
    if (machine->races() == nullptr && what != Access::read_only) machine->point(name_of(what), site);
    machine->check_memory(what, address, bytes, Scope::block, site, value);
}

void atomic_access(Access what, const void* address, std::uint32_t bytes, Scope scope, Order order, Site site,
                   const void* value) {
    machine->point(name_of(what), site);
    machine->check_memory(what, address, bytes, scope, site, value);
    if (machine->races() != nullptr) {
        machine->races()->order(machine->self().id, what, reinterpret_cast<std::uintptr_t>(address), scope, order);
    }
}

void fence(Scope scope, Site site) {
    machine->point("fence", site);
    if (machine->races() != nullptr) machine->races()->fence(machine->self().id, scope);
}

void* map_shared(const void* address, std::uint32_t rank, Site site) {
    Machine& m = *machine;
    const Position& here = m.self().position;
    if (rank >= here.cluster_size) {
        fail("map_shared to block " + std::to_string(rank) + " of a cluster of " +
             std::to_string(here.cluster_size) + " at " + site.text());
    }
    const auto owner = m.block_of_shared(address);
    if (!owner || *owner != here.block)
        fail("map_shared of an address outside the block's shared memory at " + site.text());
    const std::uint32_t peer = here.block / here.cluster_size * here.cluster_size + rank;
    return m.block(peer).shared + (static_cast<const unsigned char*>(address) - here.shared);
}

// ---- asynchronous copies: the bytes arrive at once or at the wait, as the schedule has it; nobody may look before

void copy_async(void* shared, const void* global, std::uint32_t bytes, Site site) {
    Machine& m = *machine;
    m.point("copy_async", site);
    Copy copy{static_cast<unsigned char*>(shared), static_cast<const unsigned char*>(global), bytes, site};
    const auto owner = m.block_of_shared(shared);
    if (!owner || *owner != m.self().position.block || m.block_of_shared(global)) {
        fail("copy_async at " + site.text() + " goes from global to the block's own shared memory");
    }
    m.check_memory(Access::write, shared, bytes, Scope::block, site);
    if (m.races() != nullptr) m.races()->start_copy(reinterpret_cast<std::uintptr_t>(shared), bytes);
    if (m.random().below(2U) == 0U) std::memcpy(shared, global, bytes);
    m.self().open_copies.push_back(copy);
}

void copy_commit() {
    Thread& self = machine->self();
    self.copies.push_back(std::move(self.open_copies));
    self.open_copies.clear();
}

void Machine::finish_copies(Thread& thread, std::size_t keep) {
    while (thread.copies.size() > keep) {
        for (const Copy& copy : thread.copies.front()) {
            if (races_) races_->end_copy(reinterpret_cast<std::uintptr_t>(copy.shared), copy.bytes);
            check_memory(Access::read, copy.global, copy.bytes, Scope::block, copy.site);
            check_memory(Access::write, copy.shared, copy.bytes, Scope::block, copy.site);
            std::memcpy(copy.shared, copy.global, copy.bytes);
        }
        thread.copies.erase(thread.copies.begin());
    }
}

void copy_wait(std::uint32_t groups, Site site) {
    machine->point("copy_wait", site);
    machine->finish_copies(machine->self(), groups);
}

void sleep(Site site) {
    Machine& m = *machine;
    m.self().doing = "nanosleep";
    m.self().site = site;
    m.yield();
}

std::uint64_t cycles(Site site) {
    machine->point("cycles", site);
    return machine->steps();
}

}  // namespace arcbeam::emulator
