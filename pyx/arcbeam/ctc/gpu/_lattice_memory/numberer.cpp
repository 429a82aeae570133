#include "arcbeam/ctc/gpu/_lattice_memory/numberer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

#include "arcbeam/ctc/gpu/_lattice_memory/written.hpp"
#include "lattice/number.hpp"

namespace arcbeam {

namespace {

lattice::Lattice number(const GraphView& graph, const unsigned char* memory, const PendingLattice& pending) {
    static_assert(sizeof(lattice::Entry) == sizeof(LogEntry), "a kernel writes what is numbered");
    const LatticeResult& place = *pending.result;
    const auto* const steps = reinterpret_cast<const LatticeStep*>(memory + place.begin);
    const auto* const links = reinterpret_cast<const lattice::Link*>(steps + place.steps);
    const auto* const entries = reinterpret_cast<const lattice::Entry*>(links + place.links);
    const auto* const costs = reinterpret_cast<const float*>(entries + place.entries);
    std::vector<std::uint32_t> first_entry{0};
    std::vector<double> offsets;
    for (std::uint32_t i = 0; i < place.steps; ++i) {
        first_entry.push_back(steps[i].entries_end);
        offsets.push_back(steps[i].offset);
    }
    lattice::Found found{};
    found.entries = entries;
    found.costs = costs;
    found.num_tokens = place.entries;
    found.losers = links;
    found.num_losers = place.links;
    found.first_entry = first_entry.data();
    found.offsets = offsets.data();
    found.num_steps = place.steps;
    found.end_extras = costs + place.entries;
    found.best_end = place.best_end;
    found.total_cost = place.total_cost;
    found.reached_final = place.reached_final != 0;
    found.complete = place.alive != 0;
    return pending.new_words == nullptr ? lattice::number(graph, found)
                                        : lattice::number(OpenGraph(graph, *pending.new_words), found);
}

}  // namespace

void Numberer::begin(lattice::LatticePool& pool, const GraphView& graph, std::vector<PendingLattice> pending) {
    pool_ = &pool;
    graph_ = graph;
    pending_ = std::move(pending);
    handed_.clear();
    handed_.reserve(pending_.size());
    next_ = numbered_ = 0;
    finished_ = failed_ = false;
    pool.run(pending_.size(), [this](std::size_t worker) { work(worker); });
}

void Numberer::poll() {
    const auto first =
        std::partition(pending_.begin(), pending_.end(), [](const auto& one) { return !is_written(*one.result); });
    if (first == pending_.end()) {
        return;
    }
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        handed_.insert(handed_.end(), first, pending_.end());
    }
    for (auto one = first; one != pending_.end(); ++one) {
        more_.notify_one();
    }
    pending_.erase(first, pending_.end());
}

bool Numberer::wait_for_numbers(int milliseconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    return all_numbered_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                                  [this] { return numbered_ == handed_.size(); });
}

void Numberer::finish() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        finished_ = true;
    }
    more_.notify_all();
}

void Numberer::work(std::size_t worker) {
    for (;;) {
        PendingLattice one{};
        {
            std::unique_lock<std::mutex> lock(mutex_);
            more_.wait(lock, [this] { return next_ < handed_.size() || finished_; });
            if (next_ == handed_.size()) {
                return;
            }
            one = handed_[next_++];
        }
        make(worker, one);
    }
}

void Numberer::make(std::size_t worker, const PendingLattice& pending) {
    lattice::Lattice made;
    try {
        made = number(graph_, memory_, pending);
    } catch (const std::exception&) {
        failed_ = true;
    }
    note_number();
    pool_->answer(worker, pending.utterance, made);
    if (pending.into != nullptr) {
        *pending.into = std::move(made);
    }
}

void Numberer::note_number() {
    bool all;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        all = ++numbered_ == handed_.size();
    }
    if (all) {
        all_numbered_.notify_all();
    }
}

}  // namespace arcbeam
