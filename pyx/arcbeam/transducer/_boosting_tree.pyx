"""The border to boosting trees in C++: phrases to the arrays of an automaton, and steps in an automaton."""

import numpy as np

from libc.stdint cimport uint32_t
from libcpp.vector cimport vector

from arcbeam.transducer._token_automaton cimport TokenArc, TokenAutomaton, TokenStep, automaton_of, token_step

ARC = np.dtype([("next_state", "<u4"), ("weight", "<f4")])


cdef extern from "arcbeam/transducer/_boosting_tree/boosting_tree.hpp" namespace "arcbeam::transducer" nogil:
    cdef struct Phrases:
        const uint32_t* tokens
        const size_t* ends
        const double* scores
        size_t count

    cdef struct TreeOptions:
        double depth_scaling
        double unk_score
        const double* logs
        uint32_t num_tokens

    cdef cppclass BoostingTree:
        vector[uint32_t] first_arcs
        vector[uint32_t] arc_tokens
        vector[TokenArc] arcs
        vector[TokenArc] backoffs

    BoostingTree build_boosting_tree(const Phrases&, const TreeOptions&) except +


def build(const uint32_t[::1] tokens, const size_t[::1] ends, const double[::1] scores, const double[::1] logs, *,
          double depth_scaling, double unk_score, uint32_t num_tokens):
    """first_arcs, arc_tokens, arcs and backoffs of the tree; phrases are not checked, logs[i] is ln(i + 1)."""
    cdef BoostingTree tree
    cdef Phrases phrases = Phrases(NULL, NULL, NULL, 0)
    if ends.shape[0]:
        phrases = Phrases(&tokens[0], &ends[0], &scores[0], ends.shape[0])
    cdef TreeOptions options = TreeOptions(depth_scaling, unk_score, &logs[0], num_tokens)
    with nogil:
        tree = build_boosting_tree(phrases, options)
    return (
        np.array(<uint32_t[:tree.first_arcs.size()]> tree.first_arcs.data()),
        np.array(<uint32_t[:tree.arc_tokens.size()]> tree.arc_tokens.data()),
        np.frombuffer(bytes((<unsigned char*> tree.arcs.data())[:tree.arcs.size() * sizeof(TokenArc)]), ARC),
        np.frombuffer(bytes((<unsigned char*> tree.backoffs.data())[:tree.backoffs.size() * sizeof(TokenArc)]), ARC),
    )


def walk(automaton, uint32_t state, const uint32_t[::1] tokens):
    """Scores f4 [tokens] of a TokenAutomaton after a state, and the states u4 that follow; neither is checked."""
    cdef Py_ssize_t n = tokens.shape[0], i
    scores, states = np.empty(n, np.float32), np.empty(n, np.uint32)
    cdef float[::1] score = scores
    cdef uint32_t[::1] following = states
    cdef TokenAutomaton view = automaton_of(automaton)
    cdef TokenStep step
    with nogil:
        for i in range(n):
            step = token_step(view, state, tokens[i])
            score[i], state = step.score, step.next_state
            following[i] = state
    return scores, states
