// The tree of the spellings of a request's new words, as states and arcs in the open slot of a graph (law 9 of
// docs/design/rules.md); cpu_reference/graph/open_graph.hpp draws how they are connected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arcbeam/graph/_new_words/spellings.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::new_words {

// How tokens follow each other, by the topology of the graph.
struct Rules {
    bool has_blank = false;
    std::uint16_t blank = 0;
    bool loops = false;
    bool repeats_need_blank = false;
};

// Where a copy of the tree begins, and where it leads.
struct Copy {
    std::uint32_t first_state = 0;
    std::uint32_t first_arc = 0;
    std::uint32_t depth = 0;  // of its root
    std::uint32_t exit = 0;
};

// What is written, as in a graph.
struct Columns {
    StateRecord* states;
    ArcTarget* targets;
    std::uint16_t* columns;
    std::uint32_t* words;
};

// A token has a state, with a loop where the rules have them, and another one for the blanks after it if it is not
// the last. A word is written by the first arc that belongs to it alone, or else by the epsilon arc at its end.
// States and arcs are those of the root, then those of its children by their columns, each with all that follows
// it. The arcs of a state are epsilon arcs by their words, then the others by their columns; of equal ones the
// loop, the arc to another token, the one to the blanks, and in a state of blanks its loop, come in this order.
class Tree {
  public:
    // Word i of `spelled` has the id first_word + i.
    Tree(const Spelled& spelled, std::uint32_t first_word, const Rules& rules);

    [[nodiscard]] std::size_t states() const { return ends_.size(); }
    [[nodiscard]] std::size_t arcs() const { return arcs_.size(); }

    // Writes states() records and arcs() arcs.
    void write(const Copy& copy, const Columns& to) const;

  private:
    struct Nodes;
    struct Arc {
        std::uint32_t next_state;  // from the first of the tree on; kExit: out of it
        std::uint32_t word;
        std::uint16_t column;
    };

    void add_arcs(const Nodes& nodes, std::uint32_t node, const Rules& rules);
    void end_state(std::size_t begin);

    std::vector<Arc> arcs_;
    std::vector<std::size_t> ends_;      // of the arcs of each state
    std::vector<std::size_t> epsilons_;  // how many of these are
};

}  // namespace arcbeam::new_words
