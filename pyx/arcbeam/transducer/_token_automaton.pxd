"""Passes a TokenAutomaton's arrays to C++: addresses that the holder keeps alive."""

from libc.stdint cimport uint32_t, uintptr_t


cdef extern from "shared/token_automaton.hpp" namespace "arcbeam::transducer" nogil:
    cdef struct TokenArc:
        uint32_t next_state
        float weight

    cdef struct TokenAutomaton:
        const uint32_t* first_arcs
        const uint32_t* arc_tokens
        const TokenArc* arcs
        const TokenArc* backoffs
        uint32_t num_states
        uint32_t num_tokens

    cdef struct TokenStep:
        float score
        uint32_t next_state

    TokenStep token_step(const TokenAutomaton&, uint32_t, uint32_t)


cdef inline TokenAutomaton automaton_of(automaton):
    """The view of an arcbeam.transducer.token_automaton.TokenAutomaton, valid as long as that exists."""
    cdef TokenAutomaton view
    view.first_arcs = <const uint32_t*> <uintptr_t> automaton.first_arcs.ctypes.data
    view.arc_tokens = <const uint32_t*> <uintptr_t> automaton.arc_tokens.ctypes.data
    view.arcs = <const TokenArc*> <uintptr_t> automaton.arcs.ctypes.data
    view.backoffs = <const TokenArc*> <uintptr_t> automaton.backoffs.ctypes.data
    view.num_states = <uint32_t> len(automaton.backoffs)
    view.num_tokens = automaton.num_tokens
    return view
