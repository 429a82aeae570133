"""The results of a batch: paths and counters, taken from the results of the kernel."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from arcbeam.ctc.gpu.searches._search_view cimport UtteranceResult

cdef class Paths:
    cdef list arcs  # of the paths that have arrived, in pieces
    cdef int64_t num_arcs
    cdef tuple by_utterance  # begins, lengths, total costs, whether a final state was reached, whether complete
    cdef int64_t[::1] begins, lengths
    cdef double[::1] total_costs
    cdef uint8_t[::1] reached_final, complete
    cdef vector[uint32_t] settled  # of chunks of streams; that of each utterance lies together
    cdef vector[size_t] settled_begins, settled_counts
    cdef vector[uint64_t] lived  # the frames of each utterance that its search lived through
    cdef list ended  # of chunks of sentences that have come to an endpoint: (utterance, frames, rule)
    cdef readonly list bad  # (utterance, frame, column, value) of values that are no log-probs
    cdef uint64_t frames, tokens, leaving_arcs, admitted
    cdef int add(self, order, const UtteranceResult* results, const uint32_t* pool) except -1
