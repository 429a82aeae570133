"""Labels and n-best lists as an engine finds them, and their arrays."""

import numpy as np

from cpython.bytearray cimport PyByteArray_FromStringAndSize

INT32, INT64, FLOAT32 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float32)
NO_DURATIONS, NO_CONFIDENCES = np.empty(0, INT32), np.empty(0, FLOAT32)
LATTICE_ARC = np.dtype([("source", np.uint32), ("target", np.uint32), ("label", np.uint32), ("duration", np.uint32),
                        ("log_prob", np.float32), ("score", np.float32)])


cdef tuple labels_of(const Labels& labels):
    """(tokens, frames, durations, log_probs, confidences), arrays of their own."""
    return (
        copied(labels.tokens.data(), labels.tokens.size(), INT32),
        copied(labels.frames.data(), labels.frames.size(), INT64),
        copied(labels.durations.data(), labels.durations.size(), INT32) if labels.durations.size() > 0 else NO_DURATIONS,
        copied(labels.log_probs.data(), labels.log_probs.size(), FLOAT32),
        copied(labels.confidences.data(), labels.confidences.size(), FLOAT32) if labels.confidences.size() > 0 else
        NO_CONFIDENCES,
    )


cdef class Entries:
    """The entries of a list, each made when it is read: its labels, score, posterior and the shares of the models."""

    def __getitem__(self, size_t n):
        if n >= self.scores.size():
            raise IndexError
        first, last = self.ends[n - 1] if n > 0 else 0, self.ends[n]
        labels = tuple([array[first:last] for array in self.arrays])
        return labels, self.scores[n], self.posteriors[n], tuple([self.shares[n][k] for k in range(4)])


cdef class Lists:
    """The n-best lists of the utterances of a batch."""

    def take(self, size_t i):
        """The list of an utterance, in a tuple of its own."""
        cdef Entries found = Entries()
        cdef const NBest* one = &self.of[i]
        found.arrays = labels_of(one[0])
        found.ends, found.scores, found.posteriors, found.shares = one.ends, one.scores, one.posteriors, one.shares
        return (found,)

    def lattice(self, size_t i):
        """Of an utterance: the frames and depths of tokens, and arcs, which have the dtype `LATTICE_ARC`."""
        cdef const Lattice* one = &self.lattices[i]
        return (
            copied(one.frames.data(), one.frames.size(), np.int64),
            copied(one.depths.data(), one.depths.size(), np.uint32),
            copied(one.arcs.data(), one.arcs.size(), LATTICE_ARC),
        )


cdef copied(const void* data, size_t size, dtype):
    kind = np.dtype(dtype)
    # np.frombuffer would add a memoryview, which the collector goes through.
    return np.ndarray(size, kind, PyByteArray_FromStringAndSize(<const char*> data, size * <size_t> kind.itemsize))
