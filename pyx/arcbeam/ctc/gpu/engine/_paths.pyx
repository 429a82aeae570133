# distutils: extra_compile_args = -O3
"""The results of a batch: paths and counters, taken from the results of the kernel."""

import numpy as np

cimport cython
from libc.stdint cimport int64_t
from libcpp.algorithm cimport reverse_copy

from arcbeam.ctc.gpu.searches._search_view cimport Outcome


@cython.no_gc
cdef class Paths:
    """The results of so many utterances, which arrive in any order."""

    def __cinit__(self, Py_ssize_t utterances):
        self.arcs, self.bad, self.ended = [], [], []
        self.settled_begins.resize(utterances)
        self.settled_counts.resize(utterances)
        self.lived.resize(utterances)
        self.by_utterance = (np.empty(utterances, np.int64), np.empty(utterances, np.int64), np.empty(utterances),
                             np.empty(utterances, np.bool_), np.empty(utterances, np.bool_))
        self.begins, self.lengths, self.total_costs = self.by_utterance[:3]
        self.reached_final, self.complete = [bits.view(np.uint8) for bits in self.by_utterance[3:]]

    cdef int add(self, order, const UtteranceResult* results, const uint32_t* pool) except -1:
        """Adds results. `order`: int64[n], their utterances; `pool`: arcs, each path from its last, by time of end."""
        # Of chunks of streams, the settled part goes to `settled`, the other arcs to the results, frames before an
        # endpoint to `ended`.
        cdef const UtteranceResult* result
        cdef const int64_t[::1] index = order
        cdef uint32_t[::1] into
        cdef size_t sum_of_lengths = 0, sum_of_settled = self.settled.size(), at = 0, to, length
        cdef Py_ssize_t i, utterance, n = index.shape[0]
        for i in range(n):
            sum_of_lengths += results[i].path_length - results[i].settled
            sum_of_settled += results[i].settled
        arcs = np.empty(sum_of_lengths, dtype=np.uint32)
        into = arcs
        to = self.settled.size()
        self.settled.resize(sum_of_settled)
        for i in range(n):
            result = &results[i]
            self.frames += result.frames
            self.tokens += result.tokens
            self.leaving_arcs += result.leaving_arcs
            self.admitted += result.admitted
            utterance = index[i]
            if result.outcome == Outcome.bad_log_prob:
                self.bad.append((utterance, result.bad_frame, result.bad_column, result.bad_value))
            length = result.path_length - result.settled
            self.begins[utterance], self.lengths[utterance] = self.num_arcs, length
            self.total_costs[utterance], self.reached_final[utterance] = result.total_cost, result.reached_final != 0
            self.complete[utterance] = result.alive != 0
            self.lived[utterance] = result.frames
            self.num_arcs += length
            if result.fired != 0:
                self.ended.append((utterance, result.taken, result.fired))
            self.settled_begins[utterance], self.settled_counts[utterance] = to, result.settled
            if result.settled > 0:
                reverse_copy(pool + result.path_begin + length, pool + result.path_begin + result.path_length,
                             &self.settled[to])
                to += result.settled
            if length > 0:
                reverse_copy(pool + result.path_begin, pool + result.path_begin + length, &into[at])
                at += length
        self.arcs.append(arcs)
        return 0

    @property
    def paths(self):
        """tuple : the fields of `arcbeam.ctc.results.Paths`."""
        arcs = self.arcs[0] if len(self.arcs) == 1 else np.concatenate([np.empty(0, np.uint32), *self.arcs])
        return arcs, *self.by_utterance

    def work(self):
        """dict : counters, None where the kernel does not count."""
        return {"frames": self.frames, "tokens": self.tokens, "expanded_tokens": None,
                "leaving_arcs": self.leaving_arcs, "read_arcs": None, "candidates": None, "admitted": self.admitted}
