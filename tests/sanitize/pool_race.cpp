// The thread pool and the whole engine, for ThreadSanitizer: many utterances over a random graph, on many threads,
// again and again; cancelled batches; engines that share a graph and die right after a batch. Every answer must
// have the bytes that one thread gives. With -DRACE a job writes a shared plain counter, with -DLEAK memory is
// lost: the sanitizer must report it, or the silence of the other builds means nothing.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "decode/engine.hpp"
#include "pool/lazy_pool.hpp"
#include "pool/thread_pool.hpp"

namespace {

using arcbeam::ArcTarget;
using arcbeam::GraphView;
using arcbeam::StateRecord;
using arcbeam::twin::DecodeOptions;
using arcbeam::twin::Engine;
using arcbeam::twin::LogProbs;
using arcbeam::twin::Outcome;
using arcbeam::twin::Result;
using arcbeam::twin::Utterance;

constexpr std::uint32_t kStates = 400;
constexpr std::uint32_t kColumns = 17;
constexpr std::uint32_t kMaxFrames = 40;
constexpr std::size_t kUtterances = 48;
constexpr int kPoll = 20;  // milliseconds

using Random = std::mt19937;

std::uint32_t below(Random& random, std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); }

// Multiples of 1/4, so that ties are many.
float some_cost(Random& random) { return static_cast<float>(below(random, 24)) / 4.0F; }

struct Graph {
    std::vector<StateRecord> states;
    std::vector<ArcTarget> targets;
    std::vector<std::uint16_t> columns;
    std::vector<std::uint32_t> words;
    std::vector<float> finals;
    std::uint32_t max_depth = 0;

    [[nodiscard]] GraphView view() const {
        return {states.data(),
                targets.data(),
                columns.data(),
                words.data(),
                finals.data(),
                static_cast<std::uint32_t>(finals.size()),
                static_cast<std::uint32_t>(targets.size()),
                0,
                max_depth};
    }

    void add_arc(std::uint32_t next_state, float weight, std::uint16_t column, std::uint32_t word) {
        targets.push_back({next_state, weight});
        columns.push_back(column);
        words.push_back(word);
    }
};

// Epsilon arcs lead to states of higher number, so they form no cycle.
Graph random_graph(Random& random) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    Graph graph;
    std::vector<std::uint32_t> depth(kStates, 0);
    for (std::uint32_t state = 0; state < kStates; ++state) {
        StateRecord record{};
        record.first_arc = static_cast<std::uint32_t>(graph.targets.size());
        record.depth = depth[state];
        for (std::uint32_t n = below(random, 3); n > 0 && state + 1 < kStates; --n) {
            const std::uint32_t next = state + 1 + below(random, std::min(9U, kStates - state - 1));
            depth[next] = std::max(depth[next], depth[state] + 1);
            graph.add_arc(next, some_cost(random), arcbeam::kEpsilonColumn, below(random, 5));
        }
        record.first_emitting = static_cast<std::uint32_t>(graph.targets.size());
        record.smallest_weight = kInfinity;
        std::vector<std::uint32_t> labels(below(random, 60) == 0 ? 3 * kColumns : below(random, 6));
        std::generate(labels.begin(), labels.end(), [&] { return below(random, kColumns); });
        std::sort(labels.begin(), labels.end());
        for (const std::uint32_t label : labels) {
            const float weight = some_cost(random);
            record.smallest_weight = std::min(record.smallest_weight, weight);
            graph.add_arc(below(random, kStates), weight, static_cast<std::uint16_t>(label), below(random, 50));
        }
        graph.states.push_back(record);
        graph.finals.push_back(below(random, 10) == 0 ? some_cost(random) : kInfinity);
    }
    StateRecord end{};
    end.first_arc = end.first_emitting = static_cast<std::uint32_t>(graph.targets.size());
    graph.states.push_back(end);
    graph.max_depth = *std::max_element(depth.begin(), depth.end());
    return graph;
}

struct Batch {
    std::vector<std::vector<float>> values;
    std::vector<Utterance> utterances;
};

Batch random_batch(Random& random) {
    Batch batch;
    for (std::size_t i = 0; i < kUtterances; ++i) {
        const std::uint32_t frames = below(random, kMaxFrames + 1);
        std::vector<float> values(std::size_t{frames} * kColumns);
        std::generate(values.begin(), values.end(), [&] { return -some_cost(random); });
        batch.values.push_back(std::move(values));
        batch.utterances.push_back({LogProbs{batch.values.back().data(), kColumns, frames, kColumns, false}});
    }
    return batch;
}

bool same(const Result& a, const Result& b) {
    return a.outcome == b.outcome && a.path.arcs == b.path.arcs && a.path.reached_final == b.path.reached_final &&
           std::memcmp(&a.path.total_cost, &b.path.total_cost, sizeof a.path.total_cost) == 0;
}

void expect(bool truth, const char* what) {
    if (!truth) {
        std::fprintf(stderr, "pool_race: %s\n", what);
        std::exit(1);
    }
}

void expect_same(const std::vector<Result>& got, const std::vector<Result>& expected) {
    expect(got.size() == expected.size(), "the batch lost or gained utterances");
    for (std::size_t i = 0; i < got.size(); ++i) {
        expect(same(got[i], expected[i]), "an answer depends on the number of threads");
    }
}

const std::vector<Result>& decode(Engine& engine, const Batch& batch) {
    engine.start(batch.utterances, arcbeam::twin::kNoLattice);
    while (!engine.wait(kPoll)) {
    }
    return engine.results();
}

// Half of the batches are cancelled while they run: each utterance is then either whole or marked.
void cancel_some(Engine& engine, const Batch& batch, const std::vector<Result>& expected, Random& random) {
    engine.start(batch.utterances, arcbeam::twin::kNoLattice);
    if (below(random, 2) == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(below(random, 2000)));
        engine.cancel();
    }
    while (!engine.wait(kPoll)) {
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
        expect(engine.results()[i].outcome == Outcome::kCancelled || same(engine.results()[i], expected[i]),
               "a cancelled batch changed an answer");
    }
}

void engines() {
    Random random(20260501);
    const DecodeOptions options{9.0F, 60, 1.0F, 0.25F, 0, 512};
    for (int round = 0; round < 4; ++round) {
        const Graph graph = random_graph(random);
        const Batch batch = random_batch(random);
        Engine alone(graph.view(), options, 1);
        const std::vector<Result> expected = decode(alone, batch);
        std::size_t arcs = 0;
        for (const Result& result : expected) {
            expect(result.outcome == Outcome::kDecoded, "an utterance was not decoded");
            arcs += result.path.arcs.size();
        }
        expect(arcs > kUtterances, "the random graph is too poor to test anything");
        for (const std::size_t threads : {2U, 5U, 16U}) {
            Engine engine(graph.view(), options, threads);
            for (int again = 0; again < 3; ++again) {
                expect_same(decode(engine, batch), expected);
                cancel_some(engine, batch, expected, random);
            }
        }
        std::vector<std::thread> users;
        for (int user = 0; user < 4; ++user) {
            users.emplace_back([&] {
                Engine engine(graph.view(), options, 3);
                expect_same(decode(engine, batch), expected);
            });
        }
        for (std::thread& user : users) {
            user.join();
        }
    }
}

// Many short jobs: what one leaves behind the next must see.
void pool() {
    arcbeam::twin::ThreadPool pool(8);
#ifdef RACE
    std::size_t count = 0;
#else
    std::atomic<std::size_t> count{0};
#endif
    std::vector<std::size_t> plain(64, 0);
    for (std::size_t job = 1; job <= 300; ++job) {
        const std::size_t items = job % (plain.size() + 1);
        pool.start(items, [&](std::size_t worker, std::size_t item) {
            expect(worker < 8, "there is no such worker");
            plain[item] += job;
            ++count;
            for (int turn = 0; turn < 10; ++turn) {  // or the first thread to wake takes every item
                std::this_thread::yield();
            }
        });
        while (!pool.wait(std::chrono::milliseconds(kPoll))) {
        }
    }
    std::vector<std::size_t> expected(plain.size(), 0);
    std::size_t total = 0;
    for (std::size_t job = 1; job <= 300; ++job) {
        for (std::size_t item = 0; item < job % (plain.size() + 1); ++item) {
            expected[item] += job;
            ++total;
        }
    }
    expect(plain == expected, "the pool lost or repeated an item");
#ifndef RACE
    expect(count == total, "the pool lost or repeated an item");
#endif
    arcbeam::twin::ThreadPool idle(4);  // may end without ever having worked
}

// Every item once, by threads if there are enough; the error of the first of those that threw, after all are done.
void lazy_pool() {
    for (const std::size_t threads : {1U, 4U}) {
        arcbeam::twin::LazyPool pool(threads);
        for (std::size_t items = 0; items < 40; ++items) {
            std::vector<int> plain(items, 0);
            const std::size_t wrong = items % 7;
            std::size_t caught = items;
            try {
                pool.each(items, 8, [&](std::size_t item) {
                    std::this_thread::yield();
                    ++plain[item];
                    if (item >= wrong && item % 3 == wrong % 3 && items % 2 == 0) {
                        throw item;
                    }
                });
            } catch (std::size_t item) {
                caught = item;
            }
            const bool is_error = wrong < items && items % 2 == 0;
            expect(caught == (is_error ? wrong : items), "an error was lost, or is not that of the first item");
            const bool by_caller = threads == 1U || items < 8U;
            for (std::size_t item = 0; item < items; ++item) {
                const bool is_done = !is_error || !by_caller || item <= wrong;
                expect(plain[item] == (is_done ? 1 : 0), "an item was lost or repeated");
            }
        }
    }
}

}  // namespace

int main() {
#ifdef LEAK
    static const int* lost = nullptr;
    for (int i = 0; i < 100; ++i) lost = new int(i);
    expect(*lost == 99, "what is lost was never there");
#endif
    pool();
    lazy_pool();
    engines();
    std::puts("pool_race: all answers agree");
    return 0;
}
