"""A language model in buckets: a look-up waits for memory only twice, wherever the memory is."""

import numpy as np

from libc.stdint cimport uint32_t

from arcbeam.lm._lm_view cimport LmStep, LmView, lm_view_of
from arcbeam.lm._status cimport Code, Status

from arcbeam.lm._language_model import ARC
from arcbeam.core.errors import CapacityError
from arcbeam.core.threads import usable_cores

FULLNESS = 0.85  # share of the entries in use; 0.95 works, too, but filling takes twice the time
LINE = 128  # bytes; their memory is aligned to it
LINK = np.dtype([("state", "<u4"), ("weight", "<f4")])
ENTRY = np.dtype([("state", "<u4"), ("label", "<u4"), ("next_state", "<u4"), ("weight", "<f4")])


cdef extern from "arcbeam/lm/_lm_buckets/fill.hpp" namespace "arcbeam" nogil:
    BucketSizes bucket_sizes(const LmView&, double, unsigned) except +
    Status fill_buckets(const LmView&, const BucketSizes&, unsigned char*, unsigned, LmBuckets&) except +


def filling_threads():
    """The number of threads that fill buckets: one for each core that this process may use, at most 32."""
    return min(32, usable_cores())


cdef BucketSizes sizes_of(const LmView& lm, double fullness, unsigned threads) except *:
    cdef BucketSizes sizes
    with nogil:
        sizes = bucket_sizes(lm, fullness, threads)
    return sizes


cdef int fill(const LmView& lm, const BucketSizes& sizes, unsigned char* memory, unsigned threads,
              LmBuckets* filled) except -1:
    """Fills memory of ``sizes.bytes``, aligned to 128 bytes. CapacityError if the table is too full."""
    cdef Status status
    with nogil:
        status = fill_buckets(lm, sizes, memory, threads, filled[0])
    if status.code != Code.kOk:
        raise CapacityError(bytes(status.message).decode())
    return 0


cdef class Buckets:
    """The buckets of a model, in memory of their own: for tests, and to measure their size and speed."""

    cdef LmBuckets view
    cdef readonly object chains, words, entries
    cdef readonly uint32_t seed

    def __cinit__(self, columns, about, double fullness=FULLNESS, threads=None):
        cdef LmView lm = lm_view_of(columns, about)
        cdef unsigned some = threads or filling_threads()
        cdef BucketSizes sizes = sizes_of(lm, fullness, some)
        cdef unsigned char[::1] memory
        room = np.empty(sizes.bytes + LINE, np.uint8)
        room = room[-room.ctypes.data % LINE:][:sizes.bytes]
        memory = room
        fill(lm, sizes, &memory[0], some, &self.view)
        self.seed = self.view.seed
        self.chains = room[:lm.num_states * sizes.links * LINK.itemsize].view(LINK).reshape(-1, sizes.links)
        self.words = room[sizes.words_at:][:lm.num_labels * ARC.itemsize].view(ARC)
        some = sizes.num_parts * sizes.buckets_a_part * kLmBucketEntries
        self.entries = room[sizes.entries_at:][:<size_t> some * ENTRY.itemsize].view(ENTRY)
        self.entries = self.entries.reshape(sizes.num_parts, sizes.buckets_a_part, kLmBucketEntries)

    def steps(self, const uint32_t[::1] states, const uint32_t[::1] labels):
        """Costs f4 of labels after histories, and the histories u4 that list and follow them; nothing is checked."""
        cdef Py_ssize_t n = labels.shape[0], i
        costs, sources, following = np.empty(n, np.float32), np.empty(n, np.uint32), np.empty(n, np.uint32)
        cdef float[::1] cost = costs
        cdef uint32_t[::1] source = sources
        cdef uint32_t[::1] after = following
        cdef LmStep step
        with nogil:
            for i in range(n):
                step = step_in_buckets(self.view, states[i], labels[i])
                cost[i], source[i], after[i] = step.cost, step.source, step.next_state
        return costs, sources, following
