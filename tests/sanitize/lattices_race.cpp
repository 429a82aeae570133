// The threads that number and answer lattices while a kernel writes others, for ThreadSanitizer: a thread in the
// kernel's place marks lattices as written, and memory of one launch is overwritten once all are numbered, though
// not yet answered. Every lattice and answer must have the bytes that one thread gives afterwards. Windows are
// cancelled, too.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "arcbeam/ctc/gpu/_lattice_memory/numberer.hpp"
#include "lattice/answers.hpp"
#include "lattice/number.hpp"

namespace {

using namespace arcbeam;
using lattice::Answer;
using lattice::AnswerEngine;
using lattice::Lattice;
using lattice::Query;

constexpr std::uint32_t kWidth = 5;  // states, and tokens of a step
constexpr std::size_t kUtterances = 40;
constexpr std::size_t kRoom = std::size_t{1} << 14U;  // bytes of a lattice
constexpr int kRounds = 12;
constexpr int kPoll = 20;  // milliseconds

using Random = std::mt19937;

std::uint32_t below(Random& random, std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); }

void expect(bool truth, const char* what) {
    if (!truth) {
        std::fprintf(stderr, "lattices_race: %s\n", what);
        std::exit(1);
    }
}

// Arc a leads from state a / kWidth to state a % kWidth.
struct Graph {
    std::vector<StateRecord> states = std::vector<StateRecord>(kWidth + 1);
    std::vector<ArcTarget> targets;
    std::vector<std::uint32_t> words;

    Graph() {
        for (std::uint32_t arc = 0; arc < kWidth * kWidth; ++arc) {
            targets.push_back({arc % kWidth, 0.0F});
            words.push_back(arc % 3 == 0 ? 1 + arc % 4 : 0);
        }
    }

    [[nodiscard]] GraphView view() const {
        GraphView view{};
        view.states = states.data();
        view.targets = targets.data();
        view.words = words.data();
        view.num_states = kWidth;
        view.num_arcs = kWidth * kWidth;
        return view;
    }
};

// What a kernel writes of an utterance.
struct Written {
    std::vector<unsigned char> bytes;
    LatticeResult result{};

    template <typename T>
    void add(const std::vector<T>& values) {
        const auto* const begin = reinterpret_cast<const unsigned char*>(values.data());
        bytes.insert(bytes.end(), begin, begin + values.size() * sizeof(T));
    }
};

Written random_lattice(Random& random) {
    const std::uint32_t steps = 2 + below(random, 30);
    std::vector<LatticeStep> ends{{0.0, 1, 0}};
    std::vector<lattice::Entry> entries{{lattice::kStart, lattice::kStart}};
    std::vector<lattice::Link> losers;
    std::vector<float> costs{0.0F};
    for (std::uint32_t step = 1; step < steps; ++step) {
        const std::uint32_t before = ends.size() == 1 ? 0 : ends[step - 2].entries_end;
        for (std::uint32_t state = 0; state < kWidth; ++state) {
            const std::uint32_t sources = step == 1 ? 1 : kWidth;
            const std::uint32_t best = below(random, sources);
            const auto entry = static_cast<std::uint32_t>(entries.size());
            for (std::uint32_t source = 0; source < sources; ++source) {
                if (source != best && below(random, 3) == 0) {
                    const auto slack = 0.25F * static_cast<float>(1 + below(random, 8));
                    losers.push_back({before + source, entry, source * kWidth + state, slack});
                }
            }
            entries.push_back({before + best, best * kWidth + state});
            costs.push_back(0.25F * static_cast<float>(below(random, 20)));
        }
        ends.push_back({1.5 * step, static_cast<std::uint32_t>(entries.size()), 0});
    }
    std::vector<float> extras(kWidth, std::numeric_limits<float>::infinity());
    const std::uint32_t end = below(random, kWidth);
    extras[end] = 0.0F;
    Written made;
    made.add(ends);
    made.add(losers);
    made.add(entries);
    made.add(costs);
    made.add(extras);
    made.result.total_cost = 7.25;
    made.result.steps = steps;
    made.result.links = static_cast<std::uint32_t>(losers.size());
    made.result.entries = static_cast<std::uint32_t>(entries.size());
    made.result.best_end = made.result.entries - kWidth + end;
    made.result.reached_final = made.result.alive = 1;
    expect(made.bytes.size() <= kRoom, "a lattice is larger than its room");
    return made;
}

bool same(const Answer& a, const Answer& b) {
    return a.outcome == b.outcome && a.costs == b.costs && a.arcs == b.arcs &&
           a.nbest.posteriors == b.nbest.posteriors && a.nbest.first_link == b.nbest.first_link &&
           a.confidences == b.confidences && a.mbr.words == b.mbr.words && a.mbr.confidences == b.mbr.confidences &&
           a.mbr.posteriors == b.mbr.posteriors;
}

// Half of the utterances in each of two launches, into the same memory.
void window(Numberer& numberer, const std::vector<Written>& all, std::vector<LatticeResult>& results,
            bool is_cancelled) {
    std::vector<unsigned char> memory(kUtterances * kRoom);
    for (std::size_t half = 0; half < 2; ++half) {
        std::memset(memory.data(), 0xff, memory.size());  // no thread may read it any more
        numberer.start(memory.data());
        std::atomic<bool> is_done{false};
        std::thread kernel([&] {
            for (std::size_t i = half; i < kUtterances; i += 2) {
                std::memcpy(memory.data() + i * kRoom, all[i].bytes.data(), all[i].bytes.size());
                LatticeResult& result = results[i];
                std::memcpy(&result, &all[i].result, offsetof(LatticeResult, written));
                result.begin = i * kRoom;
                result.alive = all[i].result.alive;
                __atomic_store_n(&result.written, 1U, __ATOMIC_RELEASE);
                std::this_thread::yield();
            }
            is_done = true;
        });
        while (!is_done) {
            numberer.poll();
        }
        kernel.join();
        if (is_cancelled && half == 1) {
            numberer.cancel();
        } else {
            numberer.poll();
        }
        while (!numberer.wait_for_numbers(kPoll)) {
        }
    }
    numberer.finish();
    while (!numberer.wait(kPoll)) {
    }
    expect(!numberer.failed(), "memory has run out");
}

void windows(std::size_t threads) {
    Random random(static_cast<unsigned>(threads));
    const Graph graph;
    const lattice::AnswerOptions options{5, true, true, 0.6, 1U << 20U};
    const Query query{nullptr, OpenGraph(graph.view()).words, &options, nullptr};
    AnswerEngine engine(threads);
    AnswerEngine alone(1);
    Numberer numberer;
    for (int round = 0; round < kRounds; ++round) {
        const bool is_cancelled = round % 3 == 2;
        const bool is_answered = round % 4 != 3;
        std::vector<Written> all;
        std::vector<LatticeResult> results(kUtterances);
        std::vector<Lattice> lattices(kUtterances);
        std::vector<PendingLattice> pending;
        for (std::size_t i = 0; i < kUtterances; ++i) {
            all.push_back(random_lattice(random));
            pending.push_back({&results[i], &lattices[i], nullptr, i});
        }
        engine.begin(std::vector<Query>(is_answered ? kUtterances : 0, query));
        numberer.begin(engine, graph.view(), std::move(pending));
        window(numberer, all, results, is_cancelled);
        std::vector<Query> queries(kUtterances, query);
        for (std::size_t i = 0; i < kUtterances; ++i) {
            queries[i].lattice = &lattices[i];
            expect(is_cancelled || lattices[i].num_tokens() == all[i].result.entries, "a lattice was lost");
        }
        alone.start(std::move(queries));
        while (!alone.wait(kPoll)) {
        }
        for (std::size_t i = 0; is_answered && i < kUtterances; ++i) {
            const Answer& found = engine.results()[i];
            const bool is_left_out = is_cancelled && found.outcome == lattice::AnswerOutcome::kCancelled;
            expect(is_left_out || same(found, alone.results()[i]), "an answer differs from that of one thread");
        }
    }
}

}  // namespace

int main() {
    for (const std::size_t threads : {1U, 2U, 6U}) {
        windows(threads);
    }
    std::puts("lattices_race: all answers agree");
    return 0;
}
