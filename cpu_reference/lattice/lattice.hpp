// A lattice: the tokens and links of an utterance that lie within `lattice_beam` of its best path (law 8 of
// docs/design/rules.md). Everything is numbered by rule, so the same search gives the same bytes on every engine.
//
//     step          0             1               2          step 0 is the closure of the start state, and step t
//     tokens     0 > 1 > 2     3     4         5     6       follows frame t - 1; epsilon links stay in their step
//     links      0>1 1>2       2>3 2>4         3>5 4>5 4>6
#pragma once

#include <cstdint>
#include <vector>

#include "shared/lattice_link.hpp"

namespace arcbeam::lattice {

struct Lattice {
    // Tokens, by (step, epsilon depth, graph state, winning arc, number of the winner's source).
    std::vector<std::uint32_t>
        first_token;  // [steps + 1]: the tokens of step s are [first_token[s], first_token[s + 1])
    std::vector<std::uint32_t> states;  // [tokens]: graph states
    std::vector<double> costs;          // [tokens]: of the best path to each, offset included

    // Links, by (source, arc). Every token but the first is the target of at least one.
    std::vector<Link> links;
    std::vector<std::uint32_t> first_link;  // [tokens + 1]: the links that leave each token

    // Where paths end: tokens of the last step.
    std::vector<float>
        end_extras;  // [tokens of the last step]: end cost above the best end; +inf: no path ends here

    std::vector<std::uint32_t> best;  // the links of the best path, which is the hypothesis
    double total_cost = 0.0;          // of the best path, its end included
    bool reached_final = false;
    bool complete = false;  // false: the search died, and the best path is all there is

    [[nodiscard]] std::uint32_t num_tokens() const { return static_cast<std::uint32_t>(states.size()); }
    [[nodiscard]] std::uint32_t num_links() const { return static_cast<std::uint32_t>(links.size()); }
    [[nodiscard]] std::uint32_t num_steps() const { return static_cast<std::uint32_t>(first_token.size()) - 1U; }
    [[nodiscard]] std::uint32_t first_end() const { return first_token[first_token.size() - 2U]; }

    // What a link costs: acoustic, graph and language model together.
    [[nodiscard]] double cost_of(const Link& link) const {
        return (costs[link.target] + static_cast<double>(link.slack)) - costs[link.source];
    }
};

}  // namespace arcbeam::lattice
