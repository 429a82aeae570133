"""Labels and n-best lists as an engine finds them, and their arrays."""

import numpy as np

from libc.stdint cimport uint8_t
from libc.string cimport memcpy

LATTICE_ARC = np.dtype([("source", np.uint32), ("target", np.uint32), ("label", np.uint32), ("duration", np.uint32),
                        ("log_prob", np.float32), ("score", np.float32)])


cdef tuple labels_of(const Labels& labels):
    """(tokens, frames, durations, log_probs, confidences), arrays of their own."""
    return (
        copied(labels.tokens.data(), labels.tokens.size(), np.uint32).astype(np.int32),
        copied(labels.frames.data(), labels.frames.size(), np.int64),
        copied(labels.durations.data(), labels.durations.size(), np.uint32).astype(np.int32),
        copied(labels.log_probs.data(), labels.log_probs.size(), np.float32),
        copied(labels.confidences.data(), labels.confidences.size(), np.float32),
    )


cdef class Lists:
    """The n-best lists of the utterances of a batch."""

    def take(self, size_t i):
        """The list of an utterance: of each entry its labels, score, posterior and the shares of the models in it."""
        cdef const NBest* one = &self.of[i]
        arrays = labels_of(one[0])
        entries, first = [], 0
        for n in range(one.scores.size()):
            last = one.ends[n]
            labels = tuple([array[first:last] for array in arrays])
            shares = tuple([one.shares[n][k] for k in range(4)])
            entries.append((labels, one.scores[n], one.posteriors[n], shares))
            first = last
        return tuple(entries)

    def lattice(self, size_t i):
        """Of an utterance: the frames and depths of tokens, and arcs, which have the dtype `LATTICE_ARC`."""
        cdef const Lattice* one = &self.lattices[i]
        return (
            copied(one.frames.data(), one.frames.size(), np.int64),
            copied(one.depths.data(), one.depths.size(), np.uint32),
            copied(one.arcs.data(), one.arcs.size(), LATTICE_ARC),
        )


cdef copied(const void* data, size_t size, dtype):
    array = np.empty(size, dtype=dtype)
    cdef uint8_t[::1] into = array.view(np.uint8)
    if size > 0:
        memcpy(&into[0], data, into.shape[0])
    return array
