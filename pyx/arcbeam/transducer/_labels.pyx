"""Labels as an engine finds them, and their arrays."""

import numpy as np

from libc.stdint cimport uint8_t
from libc.string cimport memcpy


cdef tuple labels_of(const Labels& labels):
    """(tokens, frames, durations, log_probs, confidences), arrays of their own."""
    return (
        copied(labels.tokens.data(), labels.tokens.size(), np.uint32).astype(np.int32),
        copied(labels.frames.data(), labels.frames.size(), np.int64),
        copied(labels.durations.data(), labels.durations.size(), np.uint32).astype(np.int32),
        copied(labels.log_probs.data(), labels.log_probs.size(), np.float32),
        copied(labels.confidences.data(), labels.confidences.size(), np.float32),
    )


cdef list entries_of(const vector[Alternative]& nbest):
    """An n-best list: labels, score and posterior of each entry."""
    return [(labels_of(nbest[i]), nbest[i].score, nbest[i].posterior) for i in range(nbest.size())]


cdef copied(const void* data, size_t size, dtype):
    array = np.empty(size, dtype=dtype)
    cdef uint8_t[::1] into = array.view(np.uint8)
    if size > 0:
        memcpy(&into[0], data, into.shape[0])
    return array
