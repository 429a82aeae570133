// validate: checks the columns of a graph that come from a file or from a caller's arrays, and trusts nothing in
// them.
//
// A decoder may read columns that passed without further checks: the arcs of states are in order and within the
// graph, every arc leads to a state, every column is below num_columns, no cost is NaN or -inf, each smallest
// weight is right, and along every epsilon arc the depth grows (so there is no cycle), up to at most max_depth.
#pragma once

#include "common/status.hpp"
#include "graph/columns.hpp"

namespace arcbeam {

Status validate(const GraphView& graph, std::uint32_t num_columns, unsigned threads);

// The first arc whose output label is 0 < label and not known (known[label] != 0), or num_arcs.
std::uint32_t find_unknown_word(const std::uint32_t* words, std::uint32_t num_arcs, const unsigned char* known,
                                std::uint64_t num_known, unsigned threads);

// The state that an arc leaves.
std::uint32_t state_of_arc(const StateRecord* states, std::uint32_t num_states, std::uint32_t arc);

struct ArcCounts {
    std::uint64_t epsilon;
    std::uint64_t epsilon_with_word;
    std::uint64_t emitting;
    std::uint64_t emitting_with_word;
    std::uint64_t self_loops;
    std::uint64_t final_states;
};

ArcCounts count_arcs(const GraphView& graph);

}  // namespace arcbeam
