"""What a batch has come to: paths and counters, taken over from the kernel's results."""

from libc.stdint cimport uint32_t, uint64_t

from arcbeam.ctc.gpu._search cimport UtteranceResult

cdef class Paths:
    cdef readonly list paths  # of (arcs uint32[n], total_cost, reached_final, complete), by utterance
    cdef readonly list bad  # of (utterance, frame, column, value), where log-probs were no such
    cdef uint64_t frames, tokens, leaving_arcs, admitted
    cdef int add(self, order, frames, const UtteranceResult* results, const uint32_t* pool) except -1
