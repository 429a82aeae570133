"""Passes the rules of endpoints to C++."""

from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset


cdef extern from "shared/endpoint.hpp" namespace "arcbeam" nogil:
    cdef struct EndpointRule:
        uint32_t must_contain_nonsilence
        uint32_t min_trailing_silence
        uint32_t min_utterance_length
        float max_relative_cost

    cdef struct EndpointRules:
        EndpointRule* rules
        uint32_t num_rules
        uint32_t every
        int32_t blank_column
        int32_t separator_column


cdef inline int take_rules(rules, EndpointRules* into) except -1:
    """Of an arcbeam.ctc.streams.endpoint.EndpointRules; None: there are no rules."""
    memset(into, 0, sizeof(EndpointRules))
    if rules is None:
        return 0
    into.num_rules, into.every = len(rules.rules), rules.every
    into.blank_column, into.separator_column = rules.blank_column, rules.separator_column
    for i, rule in enumerate(rules.rules):
        into.rules[<size_t> i] = EndpointRule(rule.must_contain_nonsilence, rule.min_trailing_silence,
                                              rule.min_utterance_length, rule.max_relative_cost)
    return 0
