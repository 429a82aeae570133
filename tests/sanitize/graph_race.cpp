// Compiling, checking and digesting a graph of many arcs, for ThreadSanitizer: on several threads, with the bytes
// that one thread gives; and the first offender in the order of the source, whichever thread meets one first.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "arcbeam/files/_file_map/checksum.hpp"
#include "common/parallel.hpp"
#include "graph/columns.hpp"
#include "graph/compile.hpp"
#include "graph/validate.hpp"

namespace {

using namespace arcbeam;

// Enough for several pieces each.
constexpr auto kStates = static_cast<std::uint32_t>(3 * kSmallestPiece);
constexpr std::uint32_t kArcs = 2 * kStates;
constexpr std::uint32_t kColumns = 100;
constexpr unsigned kThreads = 6;

void expect(bool truth, const char* what) {
    if (!truth) {
        std::fprintf(stderr, "graph_race: %s\n", what);
        std::exit(1);
    }
}

struct Source {
    std::vector<std::uint32_t> sources = std::vector<std::uint32_t>(kArcs);
    std::vector<std::uint32_t> destinations = std::vector<std::uint32_t>(kArcs);
    std::vector<std::int32_t> inputs = std::vector<std::int32_t>(kArcs);
    std::vector<std::int32_t> outputs = std::vector<std::int32_t>(kArcs);
    std::vector<float> weights = std::vector<float>(kArcs);
};

// Epsilon arcs lead to states of higher number, so they form no cycle.
Source random_source(std::mt19937& random) {
    Source source;
    for (std::size_t arc = 0; arc < kArcs; ++arc) {
        source.sources[arc] = static_cast<std::uint32_t>(random() % (kStates - 1));
        source.inputs[arc] = static_cast<std::int32_t>(random() % (kColumns + 1));
        source.destinations[arc] =
            source.inputs[arc] == 0 ? source.sources[arc] + 1 : static_cast<std::uint32_t>(random() % kStates);
        source.outputs[arc] = static_cast<std::int32_t>(random() % 1000);
        source.weights[arc] = static_cast<float>(random() % 64) / 16.0F;
    }
    return source;
}

struct Compiled {
    std::vector<StateRecord> states = std::vector<StateRecord>(kStates + 1);
    std::vector<ArcTarget> targets = std::vector<ArcTarget>(kArcs);
    std::vector<std::uint16_t> columns = std::vector<std::uint16_t>(kArcs);
    std::vector<std::uint32_t> words = std::vector<std::uint32_t>(kArcs);
    std::vector<float> finals = std::vector<float>(kStates, 0.5F);
    std::uint32_t max_depth = 0;
    Status status;

    GraphColumns owned() {
        return {states.data(), targets.data(), columns.data(), words.data(), finals.data(), kStates, kArcs};
    }
    [[nodiscard]] GraphView view() const {
        return {states.data(), targets.data(), columns.data(), words.data(), finals.data(), kStates, kArcs, 0,
                max_depth};
    }
};

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

Compiled compile(const Source& source, unsigned threads) {
    Compiled compiled;
    const GraphColumns graph = compiled.owned();
    std::vector<RawArc> raw(kArcs);
    compiled.status = order_arcs(source.sources.data(), source.destinations.data(), source.inputs.data(),
                                 source.outputs.data(), source.weights.data(), graph, raw.data());
    expect(compiled.status.ok(), "the random graph was refused");
    const RawArcs arcs{reinterpret_cast<const unsigned char*>(raw.data()), 0};
    compiled.status = compile_arcs(arcs, {nullptr, 0, kColumns}, threads, graph);
    if (compiled.status.ok()) {
        compiled.status = fill_depths(graph, &compiled.max_depth);
    }
    return compiled;
}

std::uint64_t digest(const std::vector<ArcTarget>& targets, unsigned threads) {
    return checksum(reinterpret_cast<const unsigned char*>(targets.data()), targets.size() * sizeof(ArcTarget),
                    threads);
}

void good_graph(const Source& source) {
    const Compiled alone = compile(source, 1);
    const Compiled together = compile(source, kThreads);
    expect(alone.status.ok() && together.status.ok(), "the random graph was refused");
    expect(same(alone.states, together.states) && same(alone.targets, together.targets) &&
               same(alone.columns, together.columns) && same(alone.words, together.words) &&
               alone.max_depth == together.max_depth,
           "a compiled graph depends on the number of threads");
    expect(validate(together.view(), kColumns, kThreads).ok(), "a compiled graph was found invalid");
    expect(digest(together.targets, kThreads) == digest(alone.targets, 1),
           "a checksum depends on the number of threads");
    const std::vector<unsigned char> known(900, 1);
    expect(find_unknown_word(together.words.data(), kArcs, known.data(), known.size(), kThreads) ==
               find_unknown_word(alone.words.data(), kArcs, known.data(), known.size(), 1),
           "the first unknown word depends on the number of threads");
}

void bad_graph(Source source) {
    for (std::size_t arc = 1000; arc < kArcs; arc += 1000) {
        source.inputs[arc] = static_cast<std::int32_t>(kColumns + arc);
    }
    const Compiled alone = compile(source, 1);
    const Compiled together = compile(source, kThreads);
    expect(!alone.status.ok(), "a label without a column was let through");
    expect(alone.status.message == together.status.message, "the offender depends on the number of threads");
}

}  // namespace

int main() {
    std::mt19937 random(7);
    for (int round = 0; round < 2; ++round) {
        const Source source = random_source(random);
        good_graph(source);
        bad_graph(source);
    }
    std::puts("graph_race: all answers agree");
    return 0;
}
