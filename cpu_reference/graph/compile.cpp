#include "graph/compile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/parallel.hpp"

namespace arcbeam {
namespace {

constexpr std::size_t kInsertionSort = 24U;  // most arcs that are sorted by insertion; more are sorted by std::sort

Status describe_label(const RawArc& arc, std::uint64_t state, std::uint64_t index, const LabelMap& labels) {
    const auto s = static_cast<unsigned long long>(state);
    const auto a = static_cast<unsigned long long>(index);
    if (arc.input < 0) {
        return graph_error("state %llu, arc %llu: input label %d is negative; expected 0 (epsilon) or more", s, a,
                           arc.input);
    }
    if (labels.label_to_column != nullptr) {
        const auto size = static_cast<unsigned long long>(labels.size);
        if (static_cast<std::uint64_t>(arc.input) >= labels.size) {
            return graph_error(
                "state %llu, arc %llu: input label %d is not in label_to_column, which has %llu entries", s, a,
                arc.input, size);
        }
        return graph_error("state %llu, arc %llu: label_to_column gives input label %d column %d; expected 0 to %u",
                           s, a, arc.input, labels.label_to_column[arc.input], labels.num_columns - 1U);
    }
    return graph_error("state %llu, arc %llu: input label %d reads column %d, but there are %u columns", s, a,
                       arc.input, arc.input - 1, labels.num_columns);
}

Status describe(const RawArc& arc, std::uint64_t state, std::uint64_t index, const LabelMap& labels,
                std::uint32_t num_states) {
    const auto s = static_cast<unsigned long long>(state);
    const auto a = static_cast<unsigned long long>(index);
    if (arc.next_state >= num_states) {
        return graph_error("state %llu, arc %llu: leads to state %d, but the graph has states 0 to %u", s, a,
                           static_cast<std::int32_t>(arc.next_state), num_states - 1U);
    }
    if (std::isnan(arc.weight) || std::isinf(arc.weight)) {
        return graph_error("state %llu, arc %llu: weight is %f; expected a finite cost or +inf", s, a,
                           static_cast<double>(arc.weight));
    }
    if (arc.output < 0) {
        return graph_error("state %llu, arc %llu: output label %d is negative; expected 0 (none) or more", s, a,
                           arc.output);
    }
    return describe_label(arc, state, index, labels);
}

// Column of a label; true when it has one.
bool find_column(const LabelMap& labels, std::int32_t label, std::uint32_t* column) {
    if (label < 0) return false;
    std::uint32_t found = static_cast<std::uint32_t>(label) - 1U;
    if (labels.label_to_column != nullptr) {
        if (static_cast<std::uint64_t>(label) >= labels.size || labels.label_to_column[label] < 0) return false;
        found = static_cast<std::uint32_t>(labels.label_to_column[label]);
    }
    *column = found;
    return found < labels.num_columns;
}

// -inf would win every comparison, and NaN would win none.
bool legal(float weight) { return weight > -std::numeric_limits<float>::infinity(); }

// Keys are distinct (they end in the arc's index), so any sort of them is a stable sort of the arcs.
void sort_keys(std::vector<std::uint64_t>& keys) {
    if (keys.size() > kInsertionSort) {
        std::sort(keys.begin(), keys.end());
        return;
    }
    for (std::size_t i = 1U; i < keys.size(); ++i) {
        const std::uint64_t key = keys[i];
        std::size_t j = i;
        for (; j > 0U && keys[j - 1U] > key; --j) keys[j] = keys[j - 1U];
        keys[j] = key;
    }
}

Status compile_states(const RawArcs& raw, const LabelMap& labels, const GraphColumns& graph, std::uint64_t begin,
                      std::uint64_t end) {
    std::vector<std::uint64_t> keys;  // (0 for epsilon, else column + 1) << 32 | index within the state
    for (std::uint64_t state = begin; state < end; ++state) {
        StateRecord& record = graph.states[state];
        const std::uint32_t first = record.first_arc;
        const std::uint32_t count = graph.states[state + 1U].first_arc - first;
        const unsigned char* bytes = raw.at(state, first);
        std::uint32_t epsilons = 0U;
        std::uint64_t previous = 0U;
        bool sorted = true;
        keys.resize(count);
        for (std::uint32_t i = 0U; i < count; ++i) {
            const RawArc arc = load_arc(bytes + sizeof(RawArc) * i);
            std::uint64_t key = i;
            if (arc.input != 0) {
                std::uint32_t column = 0U;
                if (!find_column(labels, arc.input, &column)) {
                    return describe(arc, state, i, labels, graph.num_states);
                }
                key |= (std::uint64_t{column} + 1U) << 32U;
            } else {
                ++epsilons;
            }
            if (arc.next_state >= graph.num_states || !legal(arc.weight) || arc.output < 0) {
                return describe(arc, state, i, labels, graph.num_states);
            }
            sorted = sorted && previous <= key;
            previous = key;
            keys[i] = key;
        }
        if (!sorted) sort_keys(keys);

        record.first_emitting = first + epsilons;
        record.depth = 0U;
        float smallest = std::numeric_limits<float>::infinity();
        for (std::uint32_t i = 0U; i < count; ++i) {
            const std::uint64_t key = keys[i];
            const RawArc arc = load_arc(bytes + sizeof(RawArc) * static_cast<std::uint32_t>(key));
            const std::size_t id = std::size_t{first} + i;
            graph.targets[id] = {arc.next_state, arc.weight};
            graph.words[id] = static_cast<std::uint32_t>(arc.output);
            // For epsilon the upper half is 0, and 0 - 1 is 0xffff as a column.
            graph.columns[id] = static_cast<std::uint16_t>((key >> 32U) - 1U);
            if (i >= epsilons) smallest = std::min(smallest, arc.weight);
        }
        record.smallest_weight = smallest;
    }
    return {};
}

}  // namespace

Status compile_arcs(const RawArcs& raw, const LabelMap& labels, unsigned threads, const GraphColumns& graph) {
    Status status = parallel_ranges(graph.num_states, threads, [&](std::uint64_t begin, std::uint64_t end) {
        return compile_states(raw, labels, graph, begin, end);
    });
    graph.states[graph.num_states] = {graph.num_arcs, graph.num_arcs, std::numeric_limits<float>::infinity(), 0U};
    return status;
}

Status order_arcs(const std::uint32_t* sources, const std::uint32_t* destinations, const std::int32_t* inputs,
                  const std::int32_t* outputs, const float* weights, const GraphColumns& graph, RawArc* raw) {
    for (std::size_t s = 0U; s <= graph.num_states; ++s) graph.states[s].first_arc = 0U;
    for (std::size_t a = 0U; a < graph.num_arcs; ++a) {
        if (sources[a] >= graph.num_states) {
            return graph_error("arc %zu: leaves state %u, but the graph has states 0 to %u", a, sources[a],
                               graph.num_states - 1U);
        }
        ++graph.states[std::size_t{sources[a]} + 1U].first_arc;
    }
    for (std::size_t s = 0U; s < graph.num_states; ++s) {
        graph.states[s + 1U].first_arc += graph.states[s].first_arc;
        graph.states[s].depth = graph.states[s].first_arc;  // the position of the state's next arc
    }
    for (std::size_t a = 0U; a < graph.num_arcs; ++a) {
        raw[graph.states[sources[a]].depth++] = {inputs[a], outputs[a], weights[a], destinations[a]};
    }
    return {};
}

Status check_finals(const float* finals, std::uint32_t num_states) {
    for (std::size_t s = 0U; s < num_states; ++s) {
        if (!legal(finals[s])) {
            return graph_error("state %zu: final cost is %f; expected a finite cost, or +inf where not final", s,
                               static_cast<double>(finals[s]));
        }
    }
    return {};
}

}  // namespace arcbeam
