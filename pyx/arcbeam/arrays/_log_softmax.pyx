"""The border to the routine that makes log-probs of logits: addresses in, an array out."""

import numpy as np

from libc.stdint cimport int64_t, uint32_t
from libcpp.vector cimport vector

from arcbeam.arrays._log_probs cimport LogProbs, batch_of


cdef extern from "arcbeam/arrays/_log_softmax/log_softmax.hpp" namespace "arcbeam" nogil:
    void c_log_softmax "arcbeam::log_softmax"(const vector[LogProbs]& logits, float* into)


def log_softmax(const int64_t[:, ::1] logits, uint32_t columns):
    """float32[frames of all, columns], row after row, of a table of logits in the host's memory."""
    cdef vector[LogProbs] batch = batch_of(logits, columns)
    cdef size_t values = 0, i
    for i in range(batch.size()):
        values += <size_t> batch[i].frames * columns
    found = np.empty(values, np.float32)
    cdef float[::1] into = found
    if values:
        with nogil:
            c_log_softmax(batch, &into[0])
    return found.reshape(-1, columns)
