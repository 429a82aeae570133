// What threads do together: warp operations, barriers of a block, named barriers, barriers of a cluster.
#include <cstring>
#include <numeric>

#include "machine.hpp"
#include "shared/simt.cuh"

namespace arcbeam::emulator {
namespace {

const char* name_of(Together what) {
    static const char* const names[] = {"warp_sync",  "shuffle",   "ballot",           "any",
                                        "all",        "match_any", "reduce_min",       "reduce_max",
                                        "reduce_add", "reduce_or", "multiply_bfloat16"};
    return names[static_cast<int>(what)];
}

const char* name_of(Vote vote) {
    static const char* const names[] = {"block_barrier", "block_barrier_count", "block_barrier_or",
                                        "block_barrier_and"};
    return names[static_cast<int>(vote)];
}

std::string hex(std::uint32_t mask) {
    static const char digits[] = "0123456789abcdef";
    std::string text = "0x";
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[mask >> static_cast<unsigned>(shift) & 0xfU];
    return text;
}

double from_bfloat16(std::uint32_t word, unsigned which) {
    return simt::detail::from_bits<float>(word >> 16U * which << 16U);
}

// The product of all lanes' fragments; sums are rounded once for all 16 products.
void multiply(const Rendezvous& meeting) {
    const auto of = [&](std::uint32_t lane) { return simt::detail::from_bits<Fragments*>(meeting.values[lane]); };
    for (std::uint32_t row = 0; row < 16U; ++row) {
        for (std::uint32_t column = 0; column < 8U; ++column) {
            float& sum = of(row % 8U * 4U + column / 2U)->sum[row / 8U * 2U + column % 2U];
            double total = static_cast<double>(sum);
            for (std::uint32_t k = 0; k < 16U; ++k) {
                const std::uint32_t t = k % 8U / 2U;
                total += from_bfloat16(of(row % 8U * 4U + t)->a[row / 8U + k / 8U * 2U], k % 2U) *
                         from_bfloat16(of(column * 4U + t)->b[k / 8U], k % 2U);
            }
            sum = static_cast<float>(total);
        }
    }
}

// What every lane gets.
void settle(const Rendezvous& meeting, std::uint64_t (&results)[32]) {
    const auto each = [&](auto&& visit) {
        for (std::uint32_t i = 0; i < 32U; ++i) {
            if ((meeting.mask >> i & 1U) != 0U) visit(i);
        }
    };
    const std::uint64_t* const v = meeting.values;
    std::uint64_t all = meeting.what == Together::min ? 0xffffffffU : meeting.what == Together::all ? 1U : 0U;
    switch (meeting.what) {
        case Together::sync:
            break;
        case Together::multiply:
            multiply(meeting);
            break;
        case Together::shuffle:
            each([&](std::uint32_t i) {
                const std::uint32_t source = meeting.sources[i];
                results[i] = (meeting.mask >> source & 1U) != 0U ? v[source] : garbage();
            });
            return;
        case Together::match:
            each([&](std::uint32_t i) {
                results[i] = 0U;
                each([&](std::uint32_t j) { results[i] |= static_cast<std::uint64_t>(v[i] == v[j]) << j; });
            });
            return;
        case Together::ballot:
            each([&](std::uint32_t i) { all |= v[i] << i; });
            break;
        case Together::any:
        case Together::bit_or:
            each([&](std::uint32_t i) { all |= v[i]; });
            break;
        case Together::all:
            each([&](std::uint32_t i) { all &= v[i]; });
            break;
        case Together::min:
            each([&](std::uint32_t i) { all = v[i] < all ? v[i] : all; });
            break;
        case Together::max:
            each([&](std::uint32_t i) { all = v[i] > all ? v[i] : all; });
            break;
        case Together::add:
            each([&](std::uint32_t i) { all = static_cast<std::uint32_t>(all + v[i]); });
            break;
    }
    each([&](std::uint32_t i) { results[i] = all; });
}

}  // namespace

std::uint64_t garbage() { return machine->random().next(); }

std::uint64_t warp_operation(Together what, std::uint32_t mask, std::uint64_t value, std::uint32_t source,
                             Site site) {
    Machine& m = *machine;
    m.point(name_of(what), site);
    Thread& self = m.self();
    const std::uint32_t lane = self.position.thread % 32U;
    const std::uint32_t first = self.id - lane;
    const auto at = [&] { return std::string(name_of(what)) + " at " + site.text(); };
    if ((mask >> lane & 1U) == 0U)
        fail("divergent warp: mask " + hex(mask) + " of " + at() + " leaves out lane " + std::to_string(lane) +
             " that calls it");
    Warp& warp = m.block().warps[self.position.thread / 32U];
    if (const std::uint32_t absent = mask & ~warp.living) {
        const std::uint32_t i = simt::lowest_bit(absent);
        const bool exists = self.position.thread - lane + i < self.position.block_size;
        fail("divergent warp: mask " + hex(mask) + " of " + at() + " names lane " + std::to_string(i) +
             (exists ? ", which has ended" : ", which does not exist"));
    }
    std::vector<Rendezvous>& meetings = warp.open;
    Rendezvous* meeting = nullptr;
    for (Rendezvous& open : meetings) {
        if (open.mask == mask) meeting = &open;
    }
    if (meeting == nullptr) {
        meetings.emplace_back();
        meeting = &meetings.back();
        meeting->what = what;
        meeting->site = site;
        meeting->mask = mask;
    }
    // Lanes may meet in warp_sync from several lines; a value is exchanged by one instruction only.
    if (meeting->what != what || (what != Together::sync && meeting->site.bits != site.bits)) {
        fail("divergent warp: lane " + std::to_string(lane) + " comes to " + at() + " while others of mask " +
             hex(mask) + " wait in " + name_of(meeting->what) + " at " + meeting->site.text());
    }
    meeting->values[lane] = value;
    meeting->sources[lane] = source;
    meeting->arrived |= 1U << lane;
    if (meeting->arrived != mask) {
        self.mask = mask;
        m.wait(name_of(what), site);
        return self.result;
    }
    std::uint64_t results[32];
    settle(*meeting, results);
    meetings.erase(meetings.begin() + (meeting - meetings.data()));
    for (std::uint32_t i = 0; i < 32U; ++i) {
        if ((mask >> i & 1U) == 0U) continue;
        m.thread(first + i).result = results[i];
        if (i != lane) m.wake(first + i);
    }
    if (what == Together::sync && m.races() != nullptr) {
        std::vector<std::uint32_t> lanes;
        for (std::uint32_t i = 0; i < 32U; ++i) {
            if ((mask >> i & 1U) != 0U) lanes.push_back(first + i);
        }
        m.meet(lanes);
    }
    return results[lane];
}

std::uint32_t block_barrier(Vote vote, bool value, Site site) {
    Machine& m = *machine;
    m.point(name_of(vote), site);
    Thread& self = m.self();
    Block& block = m.block();
    if (block.ended != 0U) {
        fail("divergent barrier: " + std::string(name_of(vote)) + " at " + site.text() +
             " after threads of the block ended");
    }
    if (block.arrived == 0U) {
        block.vote = vote;
        block.site = site;
        block.votes = 0U;
    } else if (block.vote != vote || block.site.bits != site.bits) {
        fail("divergent barrier: " + std::string(name_of(vote)) + " at " + site.text() + " while others wait in " +
             name_of(block.vote) + " at " + block.site.text());
    }
    block.votes += value ? 1U : 0U;
    if (++block.arrived != self.position.block_size) {
        m.wait(name_of(vote), site);
        return static_cast<std::uint32_t>(self.result);
    }
    block.arrived = 0U;
    const std::uint32_t votes = block.votes;
    const std::uint32_t result = vote == Vote::count ? votes
                                 : vote == Vote::any
                                     ? static_cast<std::uint32_t>(votes != 0U)
                                     : static_cast<std::uint32_t>(votes == self.position.block_size);
    std::vector<std::uint32_t> members(self.position.block_size);
    std::iota(members.begin(), members.end(), m.first_thread_of_block());
    for (const std::uint32_t t : members) {
        m.thread(t).result = result;
        if (t != self.id) m.wake(t);
    }
    m.meet(members);
    return result;
}

void named_barrier(std::uint32_t id, std::uint32_t threads, bool waits, Site site) {
    Machine& m = *machine;
    const char* const doing = waits ? "named_barrier" : "named_barrier_arrive";
    m.point(doing, site);
    Thread& self = m.self();
    if (id == 0U || id > 15U)
        fail("named barrier " + std::to_string(id) + " at " + site.text() + ": ids are 1 to 15");
    if (threads == 0U || threads % 32U != 0U || threads > (self.position.block_size + 31U) / 32U * 32U) {
        fail("named barrier of " + std::to_string(threads) + " threads at " + site.text() +
             ": whole warps of the block");
    }
    NamedBarrier& barrier = m.block().named[id];
    if (barrier.arrived != 0U && barrier.threads != threads) {
        fail("divergent barrier: " + std::string(doing) + " of " + std::to_string(threads) + " threads at " +
             site.text() + " while others wait for " + std::to_string(barrier.threads));
    }
    barrier.threads = threads;
    m.tell(self.id, barrier.told);
    const bool last = ++barrier.arrived == threads;
    if (!last) {
        if (!waits) return;
        barrier.waiting.push_back(self.id);
        m.wait(doing, site);
        return;
    }
    if (waits) barrier.waiting.push_back(self.id);
    for (const std::uint32_t t : barrier.waiting) {
        m.hear(t, barrier.told);
        if (t != self.id) m.wake(t);
    }
    barrier = NamedBarrier{};
}

void cluster_arrive(Site site) {
    Machine& m = *machine;
    m.point("cluster_barrier_arrive", site);
    Thread& self = m.self();
    Cluster& cluster = m.cluster();
    if (self.cluster_arrived)
        fail("divergent barrier: cluster_barrier_arrive at " + site.text() + " twice without a wait");
    if (cluster.ended != 0U)
        fail("divergent barrier: cluster_barrier_arrive at " + site.text() + " after threads of the cluster ended");
    self.cluster_arrived = true;
    self.cluster_phase = cluster.phase;
    m.tell(self.id, cluster.telling);
    const std::uint32_t first_block = self.position.block / self.position.cluster_size * self.position.cluster_size;
    const std::uint32_t first = first_block * self.position.block_size;
    const std::uint32_t count = self.position.cluster_size * self.position.block_size;
    if (++cluster.arrived != count) return;
    cluster.arrived = 0U;
    ++cluster.phase;
    std::swap(cluster.told, cluster.telling);
    cluster.telling = Told{};
    for (std::uint32_t t = first; t < first + count; ++t) {
        if (std::strcmp(m.thread(t).doing, "cluster_barrier_wait") == 0 &&
            m.thread(t).state == Thread::State::waiting)
            m.wake(t);
    }
}

void cluster_wait(Site site) {
    Machine& m = *machine;
    m.point("cluster_barrier_wait", site);
    Thread& self = m.self();
    if (!self.cluster_arrived)
        fail("divergent barrier: cluster_barrier_wait at " + site.text() + " without an arrive");
    if (m.cluster().phase == self.cluster_phase) m.wait("cluster_barrier_wait", site);
    self.cluster_arrived = false;
    m.hear(self.id, m.cluster().told);
}

}  // namespace arcbeam::emulator
