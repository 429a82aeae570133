#include "arcbeam/ctc/gpu/_lattice_memory/numberer.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

#include "lattice/number.hpp"

namespace arcbeam {

namespace {

lattice::Lattice number(const GraphView& graph, const WrittenLattice& written) {
    static_assert(sizeof(lattice::Entry) == sizeof(LogEntry), "a kernel writes what is numbered");
    const LatticeResult& place = written.place;
    const auto* const steps = reinterpret_cast<const LatticeStep*>(written.memory + place.begin);
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
    found.total_cost = written.total_cost;
    found.reached_final = written.reached_final;
    found.complete = written.complete;
    return lattice::number(graph, found);
}

}  // namespace

void Numberer::start(const GraphView& graph, std::vector<WrittenLattice> written) {
    graph_ = graph;
    written_ = std::move(written);
    failed_ = false;
    pool_.start(written_.size(), [this](std::size_t, std::size_t item) {
        try {
            *written_[item].into = number(graph_, written_[item]);
        } catch (const std::exception&) {
            failed_ = true;
        }
    });
}

bool Numberer::wait(int milliseconds) { return pool_.wait(std::chrono::milliseconds(milliseconds)); }

}  // namespace arcbeam
