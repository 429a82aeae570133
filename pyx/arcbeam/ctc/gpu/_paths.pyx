"""The results of a batch: paths and counters, taken from the results of the kernel."""

import numpy as np

cimport cython
from libc.stdint cimport int64_t

from arcbeam.ctc.gpu._search cimport Outcome


@cython.no_gc
cdef class Paths:
    """The results of so many utterances, which arrive in any order."""

    def __cinit__(self, Py_ssize_t utterances):
        self.paths, self.bad = [None] * utterances, []

    cdef int add(self, order, frames, const UtteranceResult* results, const uint32_t* pool) except -1:
        """Adds the results of some utterances.

        Parameters
        ----------
        order : int64[n]
            The utterance of each result.
        frames : int64[n]
            Frames of each utterance: a search that lived through fewer has died.
        results : UtteranceResult[n]
        pool : uint32[]
            Arcs of the paths, the last arc of each first. Paths are in the order in which utterances ended.
        """
        cdef const UtteranceResult* result
        cdef const int64_t[::1] index = order, given = frames
        cdef uint32_t[::1] into
        cdef size_t sum_of_lengths = 0, at = 0, arc
        cdef Py_ssize_t i, n = index.shape[0]
        for i in range(n):
            sum_of_lengths += results[i].path_length
        arcs = np.empty(sum_of_lengths, dtype=np.uint32)
        into = arcs
        with nogil:
            for i in range(n):
                result = &results[i]
                for arc in range(result.path_length):
                    into[at + arc] = pool[result.path_begin + result.path_length - 1 - arc]
                at += result.path_length
        at = 0
        for i in range(n):
            result = &results[i]
            self.frames += result.frames
            self.tokens += result.tokens
            self.leaving_arcs += result.leaving_arcs
            self.admitted += result.admitted
            if result.outcome == Outcome.bad_log_prob:
                self.bad.append((index[i], result.bad_frame, result.bad_column, result.bad_value))
            self.paths[index[i]] = (arcs[at:at + result.path_length], result.total_cost, result.reached_final != 0,
                                    <int64_t> result.frames == given[i])
            at += result.path_length
        return 0

    def work(self):
        """dict : counters, None where the kernel does not count."""
        return {"frames": self.frames, "tokens": self.tokens, "expanded_tokens": None,
                "leaving_arcs": self.leaving_arcs, "read_arcs": None, "candidates": None, "admitted": self.admitted}
