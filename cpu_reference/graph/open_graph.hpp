// A graph with a request's new words in its open slot (law 9 of docs/design/rules.md), read as a GraphView is.
//
//     the graph's    entrance . . . . . . . . . . . . . . . . . . . slot state
//                        \                                          /
//     the request's       > first - c1 -> token - c2 -> ... -> last
//                       epsilon                             epsilon
//
// Arc k of the request leaves the k-th entrance; the others are the arcs of its states. Ids of arcs, states and
// words go on from the graph's. An entrance has its own arcs in the graph, and the request's in addition, so
// epsilon arcs are visited by `for_each_epsilon`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "shared/graph_view.hpp"

namespace arcbeam {

// Columns of plain arrays, owned elsewhere. Ids in them are those of the graph and the request together.
struct NewWordsView {
    const StateRecord* states;       // [num_states + 1]
    const ArcTarget* targets;        // [num_arcs]
    const std::uint16_t* columns;    // [num_arcs]
    const std::uint32_t* words;      // [num_arcs]
    const float* finals;             // [num_states]: +inf
    const std::uint32_t* entrances;  // [num_entrances]: states of the graph, ascending
    std::uint32_t num_entrances;
    std::uint32_t first_word;  // the id of the first new word
};

// A column of the graph, followed by that of the request.
template <typename T>
class OpenColumn {
  public:
    OpenColumn() = default;
    OpenColumn(const T* graph, std::size_t count, const T* own) : graph_(graph), count_(count), own_(own) {}

    const T* operator+(std::size_t i) const { return i < count_ ? graph_ + i : own_ + (i - count_); }
    const T& operator[](std::size_t i) const { return *(*this + i); }

  private:
    const T* graph_ = nullptr;
    std::size_t count_ = 0;
    const T* own_ = nullptr;
};

struct OpenGraph {
    static constexpr std::uint32_t kNoNewWord = 0xffffffffU;

    OpenColumn<StateRecord> states;
    OpenColumn<ArcTarget> targets;
    OpenColumn<std::uint16_t> columns;
    OpenColumn<std::uint32_t> words;
    OpenColumn<float> finals;
    std::uint32_t start = 0;
    std::uint32_t max_depth = 0;
    std::uint32_t first_word = kNoNewWord;

    OpenGraph() = default;
    // A graph is one without new words.
    OpenGraph(const GraphView& graph)  // NOLINT(google-explicit-constructor)
        : OpenGraph(graph, NewWordsView{nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0U, kNoNewWord}) {}
    OpenGraph(const GraphView& graph, const NewWordsView& own)
        : states(graph.states, graph.num_states, own.states),
          targets(graph.targets, graph.num_arcs, own.targets),
          columns(graph.columns, graph.num_arcs, own.columns),
          words(graph.words, graph.num_arcs, own.words),
          finals(graph.finals, graph.num_states, own.finals),
          start(graph.start),
          max_depth(graph.max_depth),
          first_word(own.first_word),
          entrances_(own.entrances),
          entrances_end_(own.entrances + own.num_entrances),
          num_arcs_(graph.num_arcs) {}

    // The record after a state's is of the same column, which has one more than it has states.
    [[nodiscard]] std::uint32_t arcs_end(std::uint32_t state) const { return (states + state)[1].first_arc; }

    // The word that language models look up: all new words are one, the unknown word.
    [[nodiscard]] std::uint32_t known_word(std::uint32_t word) const { return std::min(word, first_word); }

    [[nodiscard]] bool is_entrance(std::uint32_t state) const {
        return std::binary_search(entrances_, entrances_end_, state);
    }

    // Calls follow(arc) for the request's arcs that leave an entrance.
    template <typename Follow>
    void for_each_entering(std::uint32_t state, Follow follow) const {
        for (const std::uint32_t* at = std::lower_bound(entrances_, entrances_end_, state);
             at != entrances_end_ && *at == state; ++at) {
            follow(num_arcs_ + static_cast<std::uint32_t>(at - entrances_));
        }
    }

  private:
    const std::uint32_t* entrances_ = nullptr;
    const std::uint32_t* entrances_end_ = nullptr;
    std::uint32_t num_arcs_ = 0;  // of the graph
};

inline bool has_epsilons(const GraphView& graph, std::uint32_t state) {
    return graph.states[state].first_arc != graph.states[state].first_emitting;
}

inline bool has_epsilons(const OpenGraph& graph, std::uint32_t state) {
    return graph.states[state].first_arc != graph.states[state].first_emitting || graph.is_entrance(state);
}

// Calls follow(arc) for each epsilon arc of a state.
template <typename Follow>
void for_each_epsilon(const GraphView& graph, std::uint32_t state, Follow follow) {
    const StateRecord& record = graph.states[state];
    for (std::uint32_t arc = record.first_arc; arc < record.first_emitting; ++arc) {
        follow(arc);
    }
}

template <typename Follow>
void for_each_epsilon(const OpenGraph& graph, std::uint32_t state, Follow follow) {
    const StateRecord& record = graph.states[state];
    for (std::uint32_t arc = record.first_arc; arc < record.first_emitting; ++arc) {
        follow(arc);
    }
    graph.for_each_entering(state, follow);
}

}  // namespace arcbeam
