"""The arguments of a batch besides its log-probs: boost lists, streams whose chunks it has, lattices."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t

import numpy as np

cimport cython

from arcbeam.core._fetch cimport addresses_of, fetch_ahead
from arcbeam.ctc.boost._boost cimport BoostList, each
from arcbeam.ctc.gpu._streams cimport CudaStream


@cython.final
cdef class BatchOptions:
    """The arguments of `CudaEngine.decode`, checked: ValueError. `by_requests`: one kernel for all lists."""

    def __cinit__(self, size_t utterances, lattice_beam, boosts, list streams, list last, answers, bint by_requests):
        cdef CudaStream stream
        cdef bint boosted = False, linked = False
        cdef size_t i
        self.lattice_beam = -1.0 if lattice_beam is None else lattice_beam
        if streams is None:
            lists = each(boosts, utterances)
            boosted = _has_some(lists)
        elif len(streams) == utterances:
            addresses_of(streams, self.states)
            for i in range(utterances):
                fetch_ahead(self.states, i)
                stream = <CudaStream?> <object> self.states[i]
                boosted |= stream.boost is not None
                self.has_rules |= stream.has_rules
                linked |= stream.keeps_links
            lists = [(<CudaStream> stream).boost for stream in streams] if boosted else None
        else:
            raise ValueError(f"streams: expected one for each of {utterances} chunks, got {len(streams)}")
        if lattice_beam is None and linked:
            raise ValueError("lattice_beam: expected a cost, because there are streams that keep links, got None")
        self.boosts = lists if boosted else None
        self.opens = boosted and (by_requests or _any_new_words(lists))
        self.streams, self.last, self.answers = streams, last, answers
        self.keeps_lattices = answers is None or answers.keeps_lattices

    cdef object order(self, const int64_t[:, ::1] utterances):
        """int64 [utterances] : the longest first, and before these those of which there will be lattices."""
        cdef bint sorts = self.lattice_beam >= 0 and self.streams is not None
        if _is_longest_first(utterances):
            if not sorts:
                return None
            order = np.arange(utterances.shape[0])
        else:
            order = np.argsort(-np.asarray(utterances)[:, 2], kind="stable")
        if sorts:
            others = np.array([not (<CudaStream> stream).keeps_links for stream in self.streams], np.bool_)
            order = order[np.argsort(others[order], kind="stable")]
        return order

    cdef size_t with_links(self, size_t utterances):
        """Of how many there will be lattices."""
        cdef CudaStream stream
        cdef size_t found = 0
        if self.lattice_beam < 0:
            return 0
        if self.streams is None:
            return utterances
        for stream in self.streams:
            found += stream.keeps_links
        return found


cdef bint _is_longest_first(const int64_t[:, ::1] utterances) noexcept:
    cdef Py_ssize_t i
    for i in range(1, utterances.shape[0]):
        if utterances[i, 2] > utterances[i - 1, 2]:
            return False
    return True


cdef bint _has_some(list items):
    """Whether one of them is not None."""
    for item in items:
        if item is not None:
            return True
    return False


cdef bint _any_new_words(list boosts) except -1:
    """Whether one of the lists has new words."""
    for boost in boosts:
        if boost is not None and (<BoostList?> boost).new_words is not None:
            return True
    return False
