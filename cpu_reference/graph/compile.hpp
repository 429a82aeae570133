// compile: raw arcs to the columns of a graph, checked.
//
// In:   raw arcs in the order of their states; states[s].first_arc for s = 0..num_states, already filled in.
// Out:  states (except depth), targets, columns, words. Epsilon arcs of a state come first, in their original
// order;
//       then its emitting arcs, stably sorted by column.
//
// Fails on the first arc, in the order of the source, that leads to no state, has a NaN or -inf weight, or has an
// input label without a column.
#pragma once

#include "common/status.hpp"
#include "graph/columns.hpp"

namespace arcbeam {

Status compile_arcs(const RawArcs& raw, const LabelMap& labels, unsigned threads, const GraphColumns& graph);

// Orders arcs given as five arrays by source, stably, and fills in states[].first_arc. raw is [num_arcs].
Status order_arcs(const std::uint32_t* sources, const std::uint32_t* destinations, const std::int32_t* inputs,
                  const std::int32_t* outputs, const float* weights, const GraphColumns& graph, RawArc* raw);

// Final costs: +inf means not final; NaN and -inf are errors.
Status check_finals(const float* finals, std::uint32_t num_states);

// The epsilon depth of every state, by Kahn's rounds; fails on a cycle of epsilon arcs and names its states.
Status fill_depths(const GraphColumns& graph, std::uint32_t* max_depth);

}  // namespace arcbeam
