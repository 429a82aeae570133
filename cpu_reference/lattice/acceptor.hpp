// A compact lattice: an acceptor of words, whose arcs carry two costs and the labels of frames.
#pragma once

#include <cstdint>
#include <vector>

namespace arcbeam::lattice {

// Costs are integers, so sums are exact in any order.
struct PathCost {
    std::int64_t graph = 0;
    std::int64_t acoustic = 0;

    [[nodiscard]] std::int64_t total() const { return graph + acoustic; }
    friend PathCost operator+(const PathCost& a, const PathCost& b) {
        return {a.graph + b.graph, a.acoustic + b.acoustic};
    }
    friend PathCost operator-(const PathCost& a, const PathCost& b) {
        return {a.graph - b.graph, a.acoustic - b.acoustic};
    }
    friend bool operator==(const PathCost& a, const PathCost& b) {
        return a.graph == b.graph && a.acoustic == b.acoustic;
    }
    friend bool operator<(const PathCost& a, const PathCost& b) {
        return a.total() != b.total() ? a.total() < b.total() : a.graph < b.graph;
    }
};

// Arcs are ordered by source, and a target has a larger number than its source. The magnitudes of all costs add up
// to less than 2^62.
struct Acceptor {
    std::uint32_t start = 0;
    std::vector<std::uint32_t> first_arc;  // [states + 1]
    std::vector<std::uint32_t> targets;    // [arcs]
    std::vector<std::uint32_t> words;      // [arcs]: 0 for none
    std::vector<PathCost> costs;           // [arcs]
    std::vector<std::uint64_t> first_label{0};
    std::vector<std::uint32_t> labels;  // of arc i: [first_label[i], first_label[i + 1])

    std::vector<std::uint32_t> ends;  // states where paths end, ascending
    std::vector<PathCost> end_costs;  // [ends]
    std::vector<std::uint64_t> first_end_label{0};
    std::vector<std::uint32_t> end_labels;  // of ends[i]: [first_end_label[i], first_end_label[i + 1])

    [[nodiscard]] std::uint32_t num_states() const { return static_cast<std::uint32_t>(first_arc.size()) - 1U; }
};

}  // namespace arcbeam::lattice
