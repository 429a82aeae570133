// A boost list as an automaton over words, as both engines read it (law 9 of docs/design/rules.md): columns of
// plain arrays, owned elsewhere.
//
// A state is the beginning of a phrase, the longest that a history ends with; state 0 is that of no phrase. States
// are numbered by their words. The potential of a state is the share of a score that is given in advance. An arc
// (state, word) has what the step adds to a cost in addition to the potential of the state that it leaves: minus
// the potential of the next state, minus the scores of all phrases that the word completes. A word without an arc
// is looked up at the fallback, the next shorter beginning.
//
// All values are multiples of 1/1024 below 2^13, so their sums are exact, and along a path they telescope.
#pragma once

#include <cstdint>

#include "shared/graph_view.hpp"
#include "shared/portable.hpp"

namespace arcbeam {

constexpr std::uint32_t kNoPhrase = 0U;  // the state of a history that ends with no beginning of a phrase

struct BoostState {
    float potential;
    std::uint32_t fallback;  // below the state's own length; kNoPhrase falls back to itself
};

struct BoostArc {
    std::uint32_t state;
    std::uint32_t word;  // kNoWord: no arc
    std::uint32_t next_state;
    float cost;
};

struct BoostView {
    const BoostState* states;
    const BoostArc* arcs;  // [mask + 1]: open addressing by (state, word); at least one place is empty
    std::uint32_t mask;    // a power of two less 1
};

// What a word adds to a path's cost, and the state after it.
struct BoostStep {
    float cost;
    std::uint32_t next_state;
};

ARCBEAM_HD std::uint32_t boost_home(std::uint32_t state, std::uint32_t word, std::uint32_t mask) {
    const std::uint32_t mixed = (state * 0x9e3779b1U ^ word) * 0x85ebca6bU;
    return (mixed ^ mixed >> 15U) & mask;
}

ARCBEAM_HD BoostStep boost_step(const BoostView& boost, std::uint32_t state, std::uint32_t word) {
    const float given = boost.states[state].potential;
    for (;;) {
        for (std::uint32_t i = boost_home(state, word, boost.mask);; i = (i + 1U) & boost.mask) {
            const BoostArc arc = boost.arcs[i];
            if (arc.word == word && arc.state == state) {
                return {given + arc.cost, arc.next_state};
            }
            if (arc.word == kNoWord) {
                break;
            }
        }
        if (state == kNoPhrase) {
            return {given, kNoPhrase};
        }
        state = boost.states[state].fallback;
    }
}

// The same for a word that is in no phrase. The potential of kNoPhrase is 0.
ARCBEAM_HD BoostStep unlisted_step() { return {0.0F, kNoPhrase}; }
ARCBEAM_HD BoostStep unlisted_step(const BoostView& boost, std::uint32_t state) {
    return {boost.states[state].potential, kNoPhrase};
}

// What the end of a path gives back for a phrase that it has begun.
ARCBEAM_HD float boost_refund(const BoostView& boost, std::uint32_t state) { return boost.states[state].potential; }

// Whether there are any: otherwise the table of arcs has the fewest places.
ARCBEAM_HD bool has_phrases(const BoostView& boost) { return boost.mask > 1U; }

// A path's cost with a boost.
ARCBEAM_HD float boost_cost(float cost, float boost) { return cost + boost; }

}  // namespace arcbeam
