"""The results of a batch: paths and counters, taken from the results of the kernel."""

from libc.stdint cimport uint32_t, uint64_t

from arcbeam.ctc.gpu._search cimport UtteranceResult

cdef class Paths:
    cdef readonly list paths  # (arcs uint32[n], total_cost, reached_final, complete), by utterance
    cdef readonly list bad  # (utterance, frame, column, value) of values that are no log-probs
    cdef uint64_t frames, tokens, leaving_arcs, admitted
    cdef int add(self, order, frames, const UtteranceResult* results, const uint32_t* pool) except -1
