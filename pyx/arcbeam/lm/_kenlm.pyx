"""The border to KenLM: words in, scores out."""

import os

import numpy as np

from libc.stdint cimport uint32_t
from libcpp.string cimport string
from libcpp.vector cimport vector


class LibraryError(Exception):
    """The KenLM library cannot be used; the caller writes the message."""


class ModelError(Exception):
    """KenLM rejects the model's file; the caller writes the message."""


cdef class KenLmModel:
    """A loaded KenLM model; scores are log10 probabilities."""

    def __cinit__(self, str library, str path):
        cdef KenLmError kind = KenLmError.kNone
        cdef string reason
        cdef string cpp_library = os.fsencode(library)
        cdef string cpp_path = os.fsencode(path)
        with nogil:
            self.lm = KenLm.load(cpp_library, cpp_path, kind, reason)
        if kind == KenLmError.kLibrary:
            raise LibraryError(reason.decode(errors="replace"))
        if kind == KenLmError.kModel:
            raise ModelError(reason.decode(errors="replace"))

    @property
    def order(self):
        return self.lm.get().order()

    @property
    def start_word(self):
        """The index of <s>."""
        return self.lm.get().start_word()

    @property
    def end_sentence(self):
        """The index of </s>."""
        return self.lm.get().end_sentence()

    def word(self, str text):
        """The model's index of a word; 0 if it does not have the word."""
        return self.lm.get().word(text.encode())

    def first_scores(self, const uint32_t[::1] words):
        """float32 scores of words, by index, after the beginning of a sentence."""
        cdef vector[char] start, after
        start.resize(self.lm.get().state_size())
        after.resize(start.size())
        self.lm.get().begin_sentence(start.data())
        scores = np.empty(words.shape[0], np.float32)
        cdef float[::1] into = scores
        cdef Py_ssize_t i
        with nogil:
            for i in range(words.shape[0]):
                into[i] = self.lm.get().score(start.data(), words[i], after.data())
        return scores

    def score(self, const uint32_t[::1] words, bint bos, bint eos):
        """Sum of the scores of words, by index, after the beginning of a sentence or after nothing."""
        cdef vector[char] before, after
        cdef double total = 0.0
        cdef Py_ssize_t i
        before.resize(self.lm.get().state_size())
        after.resize(before.size())
        if bos:
            self.lm.get().begin_sentence(before.data())
        else:
            self.lm.get().null_context(before.data())
        for i in range(words.shape[0]):
            total += self.lm.get().score(before.data(), words[i], after.data())
            before.swap(after)
        if eos:
            total += self.lm.get().score(before.data(), self.lm.get().end_sentence(), after.data())
        return total
