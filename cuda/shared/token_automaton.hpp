// A back-off automaton over a transducer's tokens, as both engines read it: a boosting tree, or an n-gram model.
//
// State 0 is the empty history. It has one arc for each token, in their order, and everything backs off to it. The
// arcs of every other state are contiguous and ascend by token, and its back-off arc leads to a shorter history.
// Weights are natural logs: higher is better.
#pragma once

#include <cstdint>

#include "shared/portable.hpp"

namespace arcbeam::transducer {

struct TokenArc {
    std::uint32_t next_state;
    float weight;
};

struct TokenAutomaton {
    const std::uint32_t* first_arcs;  // [num_states + 1]
    const std::uint32_t* arc_tokens;  // [arcs]
    const TokenArc* arcs;             // [arcs]
    const TokenArc* backoffs;         // [num_states]
    std::uint32_t num_states;
    std::uint32_t num_tokens;  // tokens from this one on are not scored
};

// The score of a token after a state, and the state that follows.
struct TokenStep {
    float score;
    std::uint32_t next_state;
};

// Back-off weights are summed from the longest history down.
ARCBEAM_HD float token_back_off(float sum, float weight) { return sum + weight; }

ARCBEAM_HD TokenStep token_found(float backoffs, const TokenArc& arc) {
    return {backoffs + arc.weight, arc.next_state};
}

// The first arc from `begin` on whose token is not below `token`.
ARCBEAM_HD std::uint32_t find_token(const TokenAutomaton& automaton, std::uint32_t begin, std::uint32_t end,
                                    std::uint32_t token) {
    while (begin < end) {
        const std::uint32_t middle = begin + (end - begin) / 2U;
        const bool right = automaton.arc_tokens[middle] < token;
        begin = right ? middle + 1U : begin;
        end = right ? end : middle;
    }
    return begin;
}

// The loop ends, because every state backs off to a shorter history.
ARCBEAM_HD TokenStep token_step(const TokenAutomaton& automaton, std::uint32_t state, std::uint32_t token) {
    float backoffs = 0.0F;
    while (state != 0U) {
        const std::uint32_t end = automaton.first_arcs[state + 1U];
        const std::uint32_t arc = find_token(automaton, automaton.first_arcs[state], end, token);
        if (arc < end && automaton.arc_tokens[arc] == token) {
            return token_found(backoffs, automaton.arcs[arc]);
        }
        const TokenArc back = automaton.backoffs[state];
        backoffs = token_back_off(backoffs, back.weight);
        state = back.next_state;
    }
    return token_found(backoffs, automaton.arcs[token]);
}

// What is added to a token's logit: the shares of the n-gram model and of the boosting tree, each scaled and
// rounded, then added.
ARCBEAM_HD float fusion_share(float alpha, float score) { return alpha * score; }
ARCBEAM_HD float fused_bias(float ngram_lm, float boosting_tree) { return ngram_lm + boosting_tree; }
ARCBEAM_HD float fused_logit(float logit, float bias) { return logit + bias; }

}  // namespace arcbeam::transducer
