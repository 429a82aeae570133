"""The border to KenLM's n-grams over tokens: words in, the arrays of an automaton out."""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint32_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.lm._kenlm cimport KenLm, KenLmModel
from arcbeam.transducer._token_automaton cimport TokenArc

from arcbeam.transducer._boosting_tree import ARC as _ARC

cdef enum:
    HISTORIES = 256  # between two checks for signals


cdef extern from "arcbeam/transducer/_token_ngrams/token_ngrams.hpp" namespace "arcbeam::transducer" nogil:
    cdef cppclass TokenArrays:
        vector[uint32_t] first_arcs
        vector[uint32_t] arc_tokens
        vector[TokenArc] arcs
        vector[TokenArc] backoffs
        uint32_t start

    cdef cppclass TokenNgrams:
        TokenNgrams(const KenLm&, const uint32_t*, const uint32_t*, size_t, size_t) except +
        cbool read(size_t) except +
        float unknown_weight()
        TokenArrays automaton(uint32_t, uint32_t, float) except +


cdef class TokenNgramReader:
    """Reads the n-grams over tokens of a KenLM; `tokens` ascend, `words` are theirs; ValueError above `most`."""

    cdef KenLmModel model
    cdef TokenNgrams* ngrams

    def __cinit__(self, KenLmModel model, const uint32_t[::1] words, const uint32_t[::1] tokens, size_t most):
        cdef cbool more = True
        self.model = model
        self.ngrams = new TokenNgrams(model.lm.get()[0], &words[0], &tokens[0], words.shape[0], most)
        while more:
            with nogil:
                more = self.ngrams.read(HISTORIES)
            PyErr_CheckSignals()

    def __dealloc__(self):
        del self.ngrams

    @property
    def unknown_weight(self):
        """The natural log of the probability of a word that the model lacks, after nothing; float32."""
        return np.float32(self.ngrams.unknown_weight())

    def automaton(self, uint32_t num_tokens, uint32_t blank, float missing_weight):
        """first_arcs, arc_tokens, arcs, backoffs and start; tokens that have no word get `missing_weight`."""
        cdef TokenArrays made
        with nogil:
            made = self.ngrams.automaton(num_tokens, blank, missing_weight)
        return (
            np.array(<uint32_t[:made.first_arcs.size()]> made.first_arcs.data()),
            np.array(<uint32_t[:made.arc_tokens.size()]> made.arc_tokens.data()),
            np.frombuffer(bytes((<unsigned char*> made.arcs.data())[:made.arcs.size() * sizeof(TokenArc)]), _ARC),
            np.frombuffer(bytes((<unsigned char*> made.backoffs.data())[:made.backoffs.size() * sizeof(TokenArc)]), _ARC),
            made.start,
        )
