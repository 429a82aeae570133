// Compiles phrases of tokens to a boosting tree: a trie whose states back off to the longest suffix that is one
// (Aho & Corasick 1975), with the scores of NeMo's boosting tree.
//
// The first token of a phrase with context score c gets c, and its d-th token c * depth_scaling + ln d. A state
// that phrases share gets the largest. Backing off takes back what the tokens since the root have got, less what
// those of the shorter history would have got; at the end of a phrase nothing is taken back. A token that begins no
// phrase gets unk_score.
//
// A phrase with a negative context score changes nothing but its last token, to whose score it is added: states
// that only such phrases have score as if they were not there.
//
// States are numbered by depth, then by their tokens: the order of the phrases changes no byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/token_automaton.hpp"

namespace arcbeam::transducer {

struct Phrases {
    const std::uint32_t* tokens;  // of all phrases, one after the other
    const std::size_t* ends;      // [count]: of each phrase's tokens, none of which is empty
    const double* scores;         // [count]: context scores
    std::size_t count;
};

struct TreeOptions {
    double depth_scaling;
    double unk_score;
    const double* logs;  // [longest phrase + 1]: natural logs, of 1 on
    std::uint32_t num_tokens;
};

struct BoostingTree {
    std::vector<std::uint32_t> first_arcs;
    std::vector<std::uint32_t> arc_tokens;
    std::vector<TokenArc> arcs;
    std::vector<TokenArc> backoffs;
};

BoostingTree build_boosting_tree(const Phrases& phrases, const TreeOptions& options);

}  // namespace arcbeam::transducer
