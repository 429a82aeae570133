// Counts what a warm lane allocates while it decodes utterances of different lengths, and the bytes that a stream
// holds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include "decode/lane.hpp"

namespace {
std::size_t allocations = 0;
std::size_t held = 0;                                     // bytes
constexpr std::size_t kHead = alignof(std::max_align_t);  // before each block, which begins with its size

// A number from 0 to 1, of so many digits that no two paths cost the same.
float any_share() {
    static std::uint32_t state = 1;
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8U) / static_cast<float>(1U << 24U);
}
}  // namespace

void* operator new(std::size_t size) {
    ++allocations;
    if (void* const memory = std::malloc(kHead + size)) {
        held += *static_cast<std::size_t*>(memory) = size;
        return static_cast<char*>(memory) + kHead;
    }
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    if (memory != nullptr) {
        void* const head = static_cast<char*>(memory) - kHead;
        held -= *static_cast<std::size_t*>(head);
        std::free(head);
    }
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

int main() {
    using namespace arcbeam;
    // Rings of states that a column leads round, each with an epsilon arc to a state of its own.
    constexpr std::uint32_t kRing = 500;
    constexpr std::uint32_t kColumns = 8;
    std::vector<StateRecord> states;
    std::vector<ArcTarget> targets;
    std::vector<std::uint16_t> columns;
    for (std::uint32_t s = 0; s < kRing; ++s) {
        const auto first = static_cast<std::uint32_t>(targets.size());
        targets.push_back({kRing + s, 0.5F});
        columns.push_back(kEpsilonColumn);
        for (std::uint32_t c = 0; c < kColumns; ++c) {
            targets.push_back({(s * 7 + c + 1) % kRing, 4.0F * any_share()});
            columns.push_back(static_cast<std::uint16_t>(c));
        }
        states.push_back({first, first + 1, 0.0F, 0});
    }
    const auto num_arcs = static_cast<std::uint32_t>(targets.size());
    for (std::uint32_t s = 0; s <= kRing; ++s) {
        states.push_back({num_arcs, num_arcs, std::numeric_limits<float>::infinity(), 1});
    }
    const std::vector<std::uint32_t> words(num_arcs, 0);
    const std::vector<float> finals(states.size() - 1, 0.0F);
    const auto num_states = static_cast<std::uint32_t>(finals.size());
    const GraphView graph{
        states.data(), targets.data(), columns.data(), words.data(), finals.data(), num_states, num_arcs, 0, 1};
    const twin::DecodeOptions options{8.0F, 300, 1.0F, 0.0F, -1, 1U << 16U};

    std::vector<float> logp(4000 * kColumns);
    for (std::size_t i = 0; i < logp.size(); ++i) {
        logp[i] = -6.0F * any_share();
    }
    const std::atomic<bool> cancel{false};
    const twin::WideStates wide(graph);
    twin::Lane lane(wide);
    twin::Result result;
    for (const float lattice_beam : {twin::kNoLattice, 2.0F}) {
        for (const std::uint32_t frames : {4000U, 4000U, 40U, 400U, 4000U}) {
            const twin::LogProbs given{logp.data(), kColumns, frames, kColumns, false};
            allocations = 0;
            lane.decode(graph, options, lattice_beam, given, cancel, result);
            std::printf("%u %zu %zu %zu\n", frames, allocations, result.path.arcs.size(),
                        result.lattice.links.size());
        }
    }
    for (const float lattice_beam : {twin::kNoLattice, 0.0F, 2.0F}) {
        for (const std::uint32_t frames : {400U, 4000U}) {
            result = twin::Result{};
            const std::size_t before = held;
            std::size_t most = 0;
            twin::Stream stream;
            stream.lattice_beam = lattice_beam;
            for (std::uint32_t at = 0; at < frames; at += 40U) {
                const twin::LogProbs chunk{logp.data() + at * kColumns, kColumns, 40U, kColumns, false};
                lane.decode(graph, options, stream, chunk, at + 40U == frames, cancel, result);
                result.path = twin::Path{};
                stream.settled = {};
                most = std::max(most, held - before);
            }
            std::printf("%u %zu %zu %zu\n", frames, most, result.lattice.states.size(),
                        result.lattice.links.size());
        }
    }
    return 0;
}
