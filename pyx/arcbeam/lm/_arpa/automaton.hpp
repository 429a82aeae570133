// The back-off automaton of a language model: an acceptor whose states are word histories.
//
// A state is the empty history (state 0) or an n-gram that some listed n-gram continues. An n-gram that nothing
// continues gets no state: an arc to it leads to the history it would back off to, and includes that back-off
// weight. The word arcs of a state are sorted by label; its one back-off arc leads to a shorter history. Every
// state has the cost of </s> after it, backed off if the model does not list it, so no path needs a back-off arc to
// end. Costs are natural logs: -ln(10) * scale * log10(p), plus `word_cost` for each word.
#pragma once

#include <cstdint>
#include <vector>

#include "arcbeam/lm/_arpa/reader.hpp"

namespace arcbeam::arpa {

struct AutomatonOptions {
    double scale = 1.0;
    double word_cost = 0.0;
    std::uint32_t backoff_label = 0;  // 0 puts the back-off arc first among a state's arcs, anything else last
};

struct Automaton {
    std::vector<std::uint32_t> offsets;  // [states + 1]
    std::vector<std::uint32_t> targets;  // [arcs]
    std::vector<std::uint32_t> labels;   // [arcs]
    std::vector<float> costs;            // [arcs]
    std::vector<float> finals;           // [states]; +inf where the model never ends
    std::uint32_t start = 0;
};

Automaton make_automaton(const Reader& reader, const AutomatonOptions& options);

}  // namespace arcbeam::arpa
