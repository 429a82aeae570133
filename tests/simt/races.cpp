#include "races.hpp"

#include <algorithm>

#include "shared/simt.cuh"

namespace arcbeam::emulator {
namespace {

bool acquires(Order order) { return order == Order::acquire || order == Order::acquire_release; }
bool releases(Order order) { return order == Order::release || order == Order::acquire_release; }

void drop_covered(std::vector<Mark>& marks, std::uint8_t bytes) {
    marks.erase(std::remove_if(marks.begin(), marks.end(),
                               [bytes](const Mark& mark) { return (mark.bytes & ~bytes) == 0; }),
                marks.end());
}

}  // namespace

Races::Races(std::uint32_t num_threads, std::uint32_t block_size, std::uint32_t cluster_size)
    : Clocks(num_threads + kNumAgents),
      block_size_(block_size),
      cluster_size_(cluster_size),
      num_blocks_(num_threads / block_size),
      fences_(num_threads_) {}

std::uint32_t Races::block_of(std::uint32_t thread) const {
    const std::uint32_t of_kernel = num_blocks_ * block_size_;
    return thread < of_kernel ? thread / block_size_ : num_blocks_ + (thread - of_kernel);
}

Scope Races::distance(std::uint32_t block_a, std::uint32_t block_b) const {
    if (block_a == block_b) return Scope::block;
    if (is_host(block_a) || is_host(block_b)) return Scope::system;
    return block_a / cluster_size_ == block_b / cluster_size_ ? Scope::cluster : Scope::device;
}

// Atomic accesses are a race, too, when either's scope leaves the other's thread out.
bool Races::narrow(const Mark& a, const Mark& b) const {
    const auto needed = static_cast<std::uint8_t>(distance(block_of(a.thread), block_of(b.thread)));
    return a.scope < needed || b.scope < needed;
}

Trouble Races::find(const std::vector<Mark>& marks, const Mark& now, const char* earlier) const {
    for (const Mark& mark : marks) {
        if (clashes(mark, now)) return {Trouble::Kind::race, earlier, mark};
    }
    return {};
}

Trouble Races::find_narrow(const std::vector<Mark>& marks, const Mark& now, const char* earlier) const {
    for (const Mark& mark : marks) {
        if (clashes(mark, now) && narrow(mark, now)) return {Trouble::Kind::race, earlier, mark};
    }
    return {};
}

Trouble Races::check(Word& word, Access what, const Mark& now) const {
    if ((word.copying & now.bytes) != 0U) return {Trouble::Kind::unfinished_copy, "", {}};
    const bool writes = what != Access::read && what != Access::read_only && what != Access::atomic_load;
    if (what == Access::read_only ? (word.written & now.bytes) != 0U
                                  : writes && (word.read_only & now.bytes) != 0U) {
        return {Trouble::Kind::written_read_only, "", {}};
    }
    if (clashes(word.write, now)) return {Trouble::Kind::race, "write", word.write};
    const bool is_plain = what == Access::read || what == Access::write;
    if (writes && clashes(word.read, now)) return {Trouble::Kind::race, "read", word.read};
    if (!word.more) return {};
    const History& more = *word.more;
    Trouble found = find(more.writes, now, "write");
    if (found.kind == Trouble::Kind::none && writes) found = find(more.reads, now, "read");
    if (found.kind != Trouble::Kind::none) return found;
    if (is_plain) {
        found = find(more.atomic_writes, now, "atomic write");
        if (found.kind == Trouble::Kind::none && writes) found = find(more.atomic_reads, now, "atomic read");
        return found;
    }
    const std::uint32_t block = block_of(now.thread);
    const Scope enough = more.by_host || is_host(block) ? Scope::system : Scope::device;
    if (std::min(more.narrowest, now.scope) < static_cast<std::uint8_t>(enough) &&
        more.block != block) {  // any scope will do within a block
        found = find_narrow(more.atomic_writes, now, "atomic write of too narrow a scope for one of the two");
        if (found.kind == Trouble::Kind::none && writes) {
            found = find_narrow(more.atomic_reads, now, "atomic read of too narrow a scope for one of the two");
        }
    }
    return found;
}

// Marks pile up until there are twice as many as threads; then each thread keeps its last one of each shape.
void Races::append(std::vector<Mark>& marks, const Mark& now) const {
    if (!marks.empty()) {
        Mark& last = marks.back();
        if (last.thread == now.thread && (last.bytes & ~now.bytes) == 0 && now.scope <= last.scope) {
            last = now;
            return;
        }
    }
    marks.push_back(now);
    if (marks.size() < 2U * num_threads_ + 16U || (marks.size() & (marks.size() - 1U)) != 0U) return;
    std::vector<Mark> kept;
    std::unordered_map<std::uint32_t, bool> seen;
    for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark) {
        const std::uint32_t key = mark->thread | static_cast<std::uint32_t>(mark->bytes) << 16U |
                                  static_cast<std::uint32_t>(mark->scope) << 24U;
        if (seen.emplace(key, true).second) kept.push_back(*mark);
    }
    marks.swap(kept);
}

void Races::record(Word& word, Access what, const Mark& now) {
    if (what == Access::read_only) {
        word.read_only |= now.bytes;
        return;
    }
    if (what == Access::read) {
        // An earlier read that this one is ordered after tells a later writer nothing more.
        const bool covered = (word.read.bytes & ~now.bytes) == 0 && before(word.read, now.thread);
        if (word.read.bytes == 0U || covered) {
            word.read = now;
        } else {
            if (!word.more) word.more = std::make_unique<History>();
            append(word.more->reads, now);
        }
        return;
    }
    if (what != Access::atomic_load) word.written |= now.bytes;
    if (what == Access::write) {
        // Everything else is ordered before this write, so whatever clashes with it later clashes with this.
        if ((word.read.bytes & ~now.bytes) == 0) word.read = Mark{};
        if (word.more) {
            drop_covered(word.more->writes, now.bytes);
            drop_covered(word.more->reads, now.bytes);
            drop_covered(word.more->atomic_reads, now.bytes);
            drop_covered(word.more->atomic_writes, now.bytes);
        }
        if ((word.write.bytes & ~now.bytes) == 0) {
            word.write = now;
        } else {
            if (!word.more) word.more = std::make_unique<History>();
            word.more->writes.push_back(now);
        }
        return;
    }
    if (!word.more) word.more = std::make_unique<History>();
    word.more->narrowest = std::min(word.more->narrowest, now.scope);
    const std::uint32_t block = block_of(now.thread);
    word.more->by_host = word.more->by_host || is_host(block);
    word.more->block = word.more->block == kNoBlock || word.more->block == block ? block : kSeveral;
    append(what == Access::atomic_load ? word.more->atomic_reads : word.more->atomic_writes, now);
}

Trouble Races::access(std::uint32_t thread, Access what, std::uintptr_t address, std::uint32_t bytes, Scope scope,
                      Site site, bool fresh) {
    const std::uintptr_t end = address + bytes;
    for (std::uintptr_t at = address / 4U * 4U; at < end; at += 4U) {
        Mark now;
        now.thread = static_cast<std::uint16_t>(thread);
        now.bytes = bytes_within(at, address, bytes);
        now.scope = static_cast<std::uint8_t>(scope);
        now.time = row(thread)[thread];
        now.site = site;
        Word& shadow = words_[at];
        const Trouble found = check(shadow, what, now);
        if (found.kind != Trouble::Kind::none) return found;
        const bool reads = what != Access::write && what != Access::atomic_store && what != Access::exchange;
        if (fresh && reads && (now.bytes & ~shadow.written) != 0) return {Trouble::Kind::uninitialised, "", {}};
        record(shadow, what, now);
    }
    return {};
}

void Races::release(std::uint32_t thread, std::vector<Release>& list, Scope scope, const std::uint32_t* told) {
    const std::uint32_t block = block_of(thread);
    for (Release& entry : list) {
        if (entry.scope == scope && entry.block == block) {
            join(entry.told, told, num_threads_);
            return;
        }
    }
    list.push_back({scope, block, Clock(told, told + num_threads_)});
}

void Races::order(std::uint32_t thread, Access what, std::uintptr_t address, Scope scope, Order order) {
    const std::uint32_t block = block_of(thread);
    if (what != Access::atomic_store) {
        const auto found = releases_.find(address);
        if (found != releases_.end()) {
            for (const Release& entry : found->second) {
                const Scope needed = distance(block, entry.block);
                if (needed > scope || needed > entry.scope) continue;
                if (acquires(order)) {
                    join(row(thread), entry.told.data(), num_threads_);
                } else {  // a later fence acquires it
                    if (!fences_[thread]) fences_[thread] = std::make_unique<Fences>();
                    join(fences_[thread]->pending[static_cast<int>(needed)], entry.told.data(), num_threads_);
                }
            }
        }
    }
    if (what == Access::atomic_load) return;
    const Fences* const fences = fences_[thread].get();
    const bool fenced = fences != nullptr && std::any_of(std::begin(fences->released), std::end(fences->released),
                                                         [](const Clock& told) { return !told.empty(); });
    if (!releases(order) && !fenced) {
        if (what == Access::atomic_store) releases_.erase(address);  // ends what others released through it
        return;
    }
    std::vector<Release>& list = releases_[address];
    if (what == Access::atomic_store) list.clear();
    if (releases(order)) release(thread, list, scope, row(thread));
    if (fenced) {  // a fence before makes any later atomic write release what came before the fence
        for (int i = 0; i < 4; ++i) {
            if (fences->released[i].empty()) continue;
            release(thread, list, std::min(scope, static_cast<Scope>(i)), fences->released[i].data());
        }
    }
    ++row(thread)[thread];
}

void Races::fence(std::uint32_t thread, Scope scope) {
    if (!fences_[thread]) fences_[thread] = std::make_unique<Fences>();
    Fences& fences = *fences_[thread];
    for (int i = 0; i <= static_cast<int>(scope); ++i) {
        if (!fences.pending[i].empty()) join(row(thread), fences.pending[i].data(), num_threads_);
    }
    fences.released[static_cast<int>(scope)].assign(row(thread), row(thread) + num_threads_);
    ++row(thread)[thread];
}

void Races::follow(std::uint32_t thread, std::uint32_t other) {
    Clock told;
    tell(thread, told);
    hear(other, told);
}

void Races::start_copy(std::uintptr_t address, std::uint32_t bytes) {
    for (std::uintptr_t at = address; at < address + bytes; at += 4U) words_[at].copying = 0xfU;
}

void Races::end_copy(std::uintptr_t address, std::uint32_t bytes) {
    for (std::uintptr_t at = address; at < address + bytes; at += 4U) words_[at].copying = 0U;
}

}  // namespace arcbeam::emulator
