// Counts what a warm lane allocates while it decodes utterances of different lengths.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include "decode/lane.hpp"

namespace {
std::size_t allocations = 0;
}

void* operator new(std::size_t size) {
    ++allocations;
    if (void* const memory = std::malloc(size)) {
        return memory;
    }
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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
            targets.push_back({(s * 7 + c + 1) % kRing, 0.25F * static_cast<float>(c)});
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
        logp[i] = -static_cast<float>(i * 2654435761U % 97U) / 16.0F;
    }
    const std::atomic<bool> cancel{false};
    twin::Lane lane;
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
    return 0;
}
