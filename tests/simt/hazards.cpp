#include "hazards.hpp"

#include <cstring>

namespace arcbeam::emulator {
namespace {

constexpr std::size_t kManyMarks = 64U;

// Whether a store of these bytes of a word changes none of them.
bool same_value(const unsigned char* word, const unsigned char* value, std::uint8_t bytes) {
    for (std::uint32_t i = 0; i < 4U; ++i) {
        if ((bytes >> i & 1U) != 0U && word[i] != value[i]) return false;
    }
    return true;
}

}  // namespace

const Mark* Hazards::find(const std::vector<Mark>& marks, const Mark& now) const {
    for (const Mark& mark : marks) {
        if (clashes(mark, now)) return &mark;
    }
    return nullptr;
}

// What an earlier mark that this one is ordered after could tell, this one tells, too.
void Hazards::record(std::vector<Mark>& marks, const Mark& now) const {
    if (!marks.empty() && marks.back().thread == now.thread && (marks.back().bytes & ~now.bytes) == 0) {
        marks.back() = now;
        return;
    }
    marks.push_back(now);
    if (marks.size() < kManyMarks || (marks.size() & (marks.size() - 1U)) != 0U) return;
    marks.erase(std::remove_if(
                    marks.begin(), marks.end() - 1,
                    [&](const Mark& mark) { return (mark.bytes & ~now.bytes) == 0 && before(mark, now.thread); }),
                marks.end() - 1);
}

std::optional<Hazard> Hazards::access(std::uint32_t thread, Access what, const void* address, std::uint32_t bytes,
                                      const void* value, Site site) {
    const auto number = reinterpret_cast<std::uintptr_t>(address);
    const bool writes = what == Access::write || what == Access::atomic_store;
    for (std::uintptr_t at = number / 4U * 4U; at < number + bytes; at += 4U) {
        Mark now;
        now.thread = static_cast<std::uint16_t>(thread);
        now.bytes = bytes_within(at, number, bytes);
        now.time = row(thread)[thread];
        now.site = site;
        Word& shadow = words_[at];
        const auto* const here = reinterpret_cast<const unsigned char*>(at);
        const bool changes = value == nullptr ||
                             !same_value(here, static_cast<const unsigned char*>(value) + (at - number), now.bytes);
        if (!writes || changes) {
            if (const Mark* const mark = find(shadow.writes, now)) return Hazard{"write", *mark};
        }
        if (writes) {
            if (const Mark* const mark = find(shadow.reads, now)) return Hazard{"read", *mark};
            if (const Mark* const mark = find(shadow.updates, now)) return Hazard{"atomic update", *mark};
        }
        if (writes &&
            changes) {  // all others are ordered before it, and whatever clashes with them clashes with it
            shadow.reads.clear();
            shadow.updates.clear();
            shadow.writes.clear();
        }
        const bool reads = what == Access::read || what == Access::atomic_load;
        record(writes ? shadow.writes : reads ? shadow.reads : shadow.updates, now);
    }
    return {};
}

}  // namespace arcbeam::emulator
