"""The arguments of a batch besides its log-probs."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from libcpp.vector cimport vector


cdef class BatchOptions:
    cdef list boosts  # of each utterance, or None; None if none has one
    cdef bint opens  # whether the kernel reads new words of utterances, if there are any
    cdef list streams  # whose chunks the utterances are; None: they are whole
    cdef vector[void*] states  # these, each a CudaStream
    cdef list last  # whether these chunks are the last
    cdef object starts  # uint32 [utterances]: the states in which searches begin; None: the start state of the graph
    cdef bint has_rules  # of some stream, that may end the sentence
    cdef float lattice_beam  # negative: no lattices are requested
    cdef object answers  # an AnswerRequest; None: lattices are only made
    cdef bint keeps_lattices
    cdef object order(self, const int64_t[:, ::1] utterances)  # None: as they are
    cdef size_t with_links(self, size_t utterances)
