// Launching a kernel and choosing who runs next.
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "machine.hpp"
#include "shared/simt.cuh"

namespace arcbeam::emulator {

Machine* machine = nullptr;
Position position;

namespace {

constexpr std::uint32_t kNobody = ~0U;

std::vector<Kernel>& kernels() {
    static std::vector<Kernel> all;
    return all;
}

void run_thread() {
    machine->kernel().entry(machine->params());
    machine->end_thread();
}

}  // namespace

Registration::Registration(const char* name, std::uint32_t max_threads, std::size_t params_bytes,
                           void (*entry)(const void*)) {
    kernels().push_back({name, max_threads, params_bytes, entry});
}

std::string Site::text() const {
    if (bits == 0) return "an unknown line";
    const std::string file = reinterpret_cast<const char*>(bits & 0xffffffffffffU);
    return file.substr(file.rfind('/') + 1U) + ":" + std::to_string(bits >> 48U);
}

Machine::Machine(const Kernel& kernel, const Launch& options, const void* params, StackPool& stacks)
    : kernel_(kernel),
      options_(options),
      params_(params),
      stacks_(stacks),
      random_(options.seed),
      threads_(std::size_t{options.grid} * options.block),
      blocks_(options.grid),
      clusters_(options.grid / options.cluster),
      place_(threads_.size(), kNobody),
      ready_bits_((threads_.size() + 63U) / 64U),
      regions_(options.regions, options.regions + options.num_regions) {
    if (options.detect_races != 0U) {
        races_.emplace(static_cast<std::uint32_t>(threads_.size()), options.block, options.cluster);
        if (options.detect_hazards != 0U) hazards_.emplace(static_cast<std::uint32_t>(threads_.size()));
    }
    std::sort(regions_.begin(), regions_.end(), [](const Region& a, const Region& b) { return a.base < b.base; });
    constexpr std::size_t kGuard = 1024U;
    shared_stride_ = (options.shared_bytes + 127U) / 128U * 128U + kGuard;
    shared_memory_.resize(options.grid * shared_stride_ + kGuard + 128U);
    for (std::size_t i = 0; i + 8U <= shared_memory_.size(); i += 8U) {
        const std::uint64_t bits = random_.next();
        std::memcpy(&shared_memory_[i], &bits, 8U);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(shared_memory_.data());
    shared_base_ = shared_memory_.data() + ((address + kGuard + 127U) / 128U * 128U - address);
    for (std::uint32_t b = 0; b < options.grid; ++b) {
        blocks_[b].shared = shared_base_ + b * shared_stride_;
        blocks_[b].warps.resize((options.block + 31U) / 32U);
        std::memset(blocks_[b].shared + options.shared_bytes, 0xa5, shared_stride_ - options.shared_bytes);
    }
}

std::uint64_t Machine::run() {
    const std::uint32_t resident = options_.resident == 0U ? options_.grid : options_.resident;
    for (std::uint32_t b = 0; b < std::min(resident, options_.grid); b += options_.cluster) start_cluster();
    self_ = &threads_[pick()];
    position = self_->position;
    switch_fiber(main_, self_->fiber);
    if (failed_) throw KernelError(error_);
    check_guards();
    return steps_;
}

void Machine::start_cluster() {
    const std::uint32_t first = started_clusters_++ * options_.cluster;
    for (std::uint32_t b = first; b < first + options_.cluster; ++b) {
        for (std::uint32_t i = 0; i < options_.block; ++i) {
            const std::uint32_t id = b * options_.block + i;
            Thread& thread = threads_[id];
            thread.id = id;
            thread.position = {
                i, b, options_.block, options_.grid, options_.cluster, options_.shared_bytes, blocks_[b].shared};
            make_fiber(thread.fiber, stacks_.stack(id), run_thread);
            thread.state = Thread::State::ready;
            add_ready(id);
            blocks_[b].warps[i / 32U].living |= 1U << i % 32U;
        }
    }
}

void Machine::add_ready(std::uint32_t thread) {
    place_[thread] = static_cast<std::uint32_t>(ready_.size());
    ready_.push_back(thread);
    ready_bits_[thread / 64U] |= std::uint64_t{1} << thread % 64U;
}

void Machine::remove_ready(std::uint32_t thread) {
    const std::uint32_t hole = place_[thread];
    ready_[hole] = ready_.back();
    place_[ready_[hole]] = hole;
    ready_.pop_back();
    place_[thread] = kNobody;
    ready_bits_[thread / 64U] &= ~(std::uint64_t{1} << thread % 64U);
}

std::uint32_t Machine::first_ready() const {
    std::uint32_t at = 0;
    while (ready_bits_[at] == 0U) ++at;
    return at * 64U + simt::lowest_bit(ready_bits_[at]);
}

std::uint32_t Machine::last_ready() const {
    auto at = static_cast<std::uint32_t>(ready_bits_.size()) - 1U;
    while (ready_bits_[at] == 0U) --at;
    return at * 64U + 63U - simt::leading_zeros(ready_bits_[at]);
}

// Every policy but the first lets a favourite run for a while. When the while is over somebody else gets a turn, so
// that a thread that spins cannot keep away the one it waits for.
std::uint32_t Machine::pick() {
    const auto any = [this] { return ready_[random_.below(static_cast<std::uint32_t>(ready_.size()))]; };
    switch (options_.policy) {
        case Policy::random:
            return any();
        case Policy::ahead:
            if (favourite_ == kNobody || place_[favourite_] == kNobody || burst_ == 0U) {
                favourite_ = any();
                burst_ = 1U + random_.below(kMaxBurst);
            }
            --burst_;
            return favourite_;
        case Policy::forward:
        case Policy::reverse: {
            if (burst_ == 0U) {
                burst_ = kMaxBurst;
                favourite_ = favourite_ == kNobody ? any() : kNobody;
            }
            --burst_;
            if (favourite_ != kNobody && place_[favourite_] != kNobody) return favourite_;
            favourite_ = kNobody;
            return options_.policy == Policy::forward ? first_ready() : last_ready();
        }
        case Policy::warp: {
            if (favourite_ != kNobody && burst_ != 0U) {
                --burst_;
                std::uint32_t lanes[32];
                std::uint32_t count = 0;
                const std::uint32_t rank = favourite_ % options_.block;
                const std::uint32_t first = favourite_ - rank % 32U;
                const std::uint32_t end = std::min(first + 32U, favourite_ - rank + options_.block);
                for (std::uint32_t t = first; t < end; ++t) {
                    if (place_[t] != kNobody) lanes[count++] = t;
                }
                if (count != 0U) return lanes[random_.below(count)];
            }
            favourite_ = any();
            burst_ = 1U + random_.below(kMaxBurst);
            return favourite_;
        }
    }
    return any();
}

void Machine::step() {
    accesses_ = 0;
    if (++steps_ > options_.max_steps) {
        fail("no end after " + std::to_string(options_.max_steps) + " scheduling points; " + standing());
    }
    for (; copies_made_ < options_.num_copies && options_.copies[copies_made_].step <= steps_; ++copies_made_) {
        const FromHost& copy = options_.copies[copies_made_];
        const bool is_word = copy.writes != Writes::bytes;
        host_access(Agent::copies, is_word ? Access::atomic_store : Access::write, copy.to, copy.bytes,
                    copy.writes == Writes::released_word ? Order::release : Order::relaxed, Site{});
        std::memcpy(copy.to, copy.from, copy.bytes);
    }
    if (options_.host != nullptr && steps_ % options_.host_every == 0U) options_.host(options_.host_context);
}

void Machine::go_on() {
    if (ready_.empty()) fail("deadlock: no thread can run; " + standing());
    step();
    Thread& next = threads_[pick()];
    if (&next == self_) return;
    Thread& from = *self_;
    self_ = &next;
    position = next.position;
    switch_fiber(from.fiber, next.fiber);
}

void Machine::point(const char* doing, Site site) {
    self_->doing = doing;
    self_->site = site;
    go_on();
}

void Machine::wait(const char* doing, Site site) {
    self_->doing = doing;
    self_->site = site;
    self_->state = Thread::State::waiting;
    remove_ready(self_->id);
    go_on();
}

void Machine::wake(std::uint32_t thread) {
    threads_[thread].state = Thread::State::ready;
    add_ready(thread);
}

void Machine::yield() {
    if (ready_.size() > 1U) {
        favourite_ = kNobody;
        burst_ = 0U;
        const std::uint32_t me = self_->id;
        remove_ready(me);  // not to be picked this once
        const std::uint32_t other = pick();
        add_ready(me);
        step();
        Thread& from = *self_;
        self_ = &threads_[other];
        position = self_->position;
        switch_fiber(from.fiber, self_->fiber);
    } else {
        go_on();
    }
}

void Machine::fail(const std::string& message) {
    error_ = kernel_.name + ": " + message;
    failed_ = true;
    Fiber abandoned;
    switch_fiber(abandoned, main_);
    std::abort();
}

void Machine::end_thread() {
    finish_copies(*self_, 0U);
    self_->state = Thread::State::ended;
    self_->doing = "ended";
    Block& mine = block();
    ++mine.ended;
    mine.warps[self_->position.thread / 32U].living &= ~(1U << self_->position.thread % 32U);
    if (mine.arrived != 0U) fail("divergent barrier: " + who(*self_) + " ended while others wait; " + standing());
    ++cluster().ended;
    remove_ready(self_->id);
    if (++ended_threads_ == threads_.size()) {
        Fiber abandoned;
        switch_fiber(abandoned, main_);
    }
    const bool room = cluster().ended == options_.cluster * options_.block;
    if (room && started_clusters_ < clusters_.size()) start_cluster();
    go_on();
    std::abort();
}

std::string Machine::who(const Thread& thread) const {
    return "thread " + std::to_string(thread.position.thread) + " of block " +
           std::to_string(thread.position.block);
}

std::string Machine::who(std::uint32_t thread, Site site) const {
    static const char* const agents[] = {"the host's thread", "a copy of the host", "a copy for even lanes",
                                         "a copy for odd lanes"};
    const std::string name = thread < threads_.size() ? who(threads_[thread]) : agents[thread - threads_.size()];
    return site.bits == 0U ? name : name + " at " + site.text();
}

std::string Machine::standing() const {
    std::map<std::string, std::vector<std::uint32_t>> groups;
    for (const Thread& thread : threads_) {
        if (thread.state == Thread::State::unborn) continue;
        std::string text = thread.state == Thread::State::ready ? std::string("can go on after ") : std::string();
        text += thread.doing;
        if (thread.state != Thread::State::ended && thread.site.bits != 0U) text += " at " + thread.site.text();
        groups["block " + std::to_string(thread.position.block) + ": " + text].push_back(thread.position.thread);
    }
    std::string all;
    std::size_t shown = 0;
    for (const auto& [text, members] : groups) {
        if (++shown > 12U) return all + "; ...";
        all += (all.empty() ? "" : "; ") + text + " (thread ";
        for (std::size_t i = 0; i < members.size();) {
            std::size_t end = i + 1U;
            while (end < members.size() && members[end] == members[end - 1U] + 1U) ++end;
            all += (i == 0U ? "" : ", ") + std::to_string(members[i]);
            if (end > i + 1U) all += "-" + std::to_string(members[end - 1U]);
            i = end;
        }
        all += ")";
    }
    return all;
}

void fail(const std::string& message) { machine->fail(message + ", by " + machine->who(machine->self())); }

std::uint64_t launch(const char* kernel, const Launch& options, const void* params, std::size_t params_bytes) {
    static std::mutex one_at_a_time;
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    const auto refuse = [&](const std::string& why) {
        throw std::invalid_argument(std::string(kernel) + ": " + why);
    };
    const Kernel* found = nullptr;
    for (const Kernel& candidate : kernels()) {
        if (candidate.name != kernel) continue;
        if (found != nullptr) refuse("two kernels have this name");
        found = &candidate;
    }
    if (found == nullptr) refuse("there is no such kernel");
    if (params_bytes != found->params_bytes) {
        refuse("parameters have " + std::to_string(params_bytes) + " bytes, the kernel takes " +
               std::to_string(found->params_bytes));
    }
    if (options.grid == 0U || options.block == 0U) refuse("grid and block must not be empty");
    if (options.block > found->max_threads) {
        refuse("block of " + std::to_string(options.block) + " threads, at most " +
               std::to_string(found->max_threads));
    }
    if (options.cluster == 0U || options.grid % options.cluster != 0U) {
        refuse("the grid is no multiple of the cluster");
    }
    if (options.resident != 0U && options.resident < options.cluster)
        refuse("a cluster needs all its blocks resident");
    if (options.shared_bytes > 227U * 1024U) refuse("more than 227 KiB of shared memory");
    if (options.detect_races != 0U && std::uint64_t{options.grid} * options.block > 8192U) {
        refuse("race detection takes at most 8192 threads");
    }
    static StackPool stacks;
    Machine running(*found, options, params, stacks);
    machine = &running;
    struct Reset {
        ~Reset() {
            machine = nullptr;
            stacks.give_back();
        }
    } reset;
    return running.run();
}

}  // namespace arcbeam::emulator
