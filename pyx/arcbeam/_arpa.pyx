# distutils: language = c++
"""Border to the ARPA reader in cpu_reference/arpa: words and blocks of text in, the arrays of the automaton out."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

import numpy as np

from arcbeam.errors import FormatError


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        string_view(const char*, size_t)


cdef extern from "arpa/reader.hpp" namespace "arcbeam::arpa" nogil:
    cdef cppclass ArpaError:
        uint64_t line
        const char* what()

    cdef cppclass Tally:
        uint64_t unknown_words
        uint64_t unknown_ngrams
        uint64_t misplaced
        uint64_t missing_words
        cbool has_end
        vector[uint64_t] header

    cdef cppclass Trie:
        uint64_t num_added()

    cdef cppclass Reader:
        Reader(uint32_t) except +
        cbool add_word(string_view, uint32_t) except +
        uint64_t ngrams_read()
        const Trie& trie()
        const Tally& tally()


cdef extern from "arpa/automaton.hpp" namespace "arcbeam::arpa" nogil:
    cdef cppclass AutomatonOptions:
        double scale
        double word_cost
        uint32_t backoff_label

    cdef cppclass Automaton:
        vector[uint32_t] offsets
        vector[uint32_t] targets
        vector[uint32_t] labels
        vector[float] costs
        vector[float] finals
        uint32_t start

    Automaton make_automaton(const Reader&, const AutomatonOptions&) except +


cdef extern from "arpa/border.hpp" namespace "arcbeam::arpa" nogil:
    # Empty, or the message of the ArpaError that was thrown, with its line in front.
    cdef cppclass Outcome:
        cbool failed
        uint64_t line
        const char* text()
    Outcome feed(Reader&, const char*, size_t) except +
    Outcome finish(Reader&) except +


cdef _uint32_array(vector[uint32_t]& values):
    array = np.empty(values.size(), dtype=np.uint32)
    cdef uint32_t[::1] view = array
    if values.size():
        memcpy(&view[0], values.data(), values.size() * sizeof(uint32_t))
    values.clear()
    values.shrink_to_fit()
    return array


cdef _float32_array(vector[float]& values):
    array = np.empty(values.size(), dtype=np.float32)
    cdef float[::1] view = array
    if values.size():
        memcpy(&view[0], values.data(), values.size() * sizeof(float))
    values.clear()
    values.shrink_to_fit()
    return array


cdef class ArpaReader:
    """Reads an ARPA file block by block.

    Parameters
    ----------
    words : sequence of bytes
        The known words, in UTF-8; word i gets the label i + 1. N-grams with other words are left out and counted.
    name : str
        The file's name, for messages.

    Raises
    ------
    ValueError
        A word comes twice, or is ``<s>`` or ``</s>``.
    """

    cdef Reader* reader
    cdef object name
    cdef bint finished

    def __cinit__(self, words, name):
        self.name = str(name)
        self.reader = new Reader(<uint32_t>len(words))
        cdef uint32_t label = 0
        cdef bytes word
        for word in words:
            label += 1
            if not self.reader.add_word(string_view(<const char*>word, <size_t>len(word)), label):
                raise ValueError(f"expected every word once and neither <s> nor </s>, got {word.decode()!r} again")

    def __dealloc__(self):
        del self.reader

    cdef _check(self, Outcome& outcome):
        if outcome.failed:
            message = outcome.text().decode("utf-8", "replace")
            raise FormatError(f"{self.name}, line {outcome.line}: {message}")

    def feed(self, const unsigned char[::1] block):
        """Read the next bytes of the file; FormatError names the line."""
        cdef size_t size = block.shape[0]
        cdef const char* data = <const char*>&block[0] if size else NULL
        cdef Outcome outcome
        with nogil:
            outcome = feed(self.reader[0], data, size)
        self._check(outcome)

    def finish(self):
        """Say that the file has ended; FormatError if it ended too early."""
        cdef Outcome outcome = finish(self.reader[0])
        self._check(outcome)
        self.finished = True

    @property
    def ngrams_read(self):
        return self.reader.ngrams_read()

    def tally(self):
        """What was read and what was left out, as a dict."""
        cdef const Tally* tally = &self.reader.tally()
        return {
            "ngrams": tuple(tally.header),
            "unknown_words": tally.unknown_words,
            "unknown_ngrams": tally.unknown_ngrams,
            "misplaced_ngrams": tally.misplaced,
            "added_ngrams": self.reader.trie().num_added(),
            "words_without_unigram": tally.missing_words,
            "has_sentence_end": bool(tally.has_end),
        }

    def automaton(self, double scale, double word_cost, uint32_t backoff_label):
        """The back-off automaton: offsets, targets, labels, costs, finals (arrays) and the start state.

        Arcs of state s are ``[offsets[s], offsets[s + 1])``, sorted by label; the back-off arc has
        `backoff_label` and comes first if that is 0, else last. Costs are natural logs.
        """
        if not self.finished:
            raise RuntimeError("automaton() comes after finish()")
        cdef AutomatonOptions options
        options.scale = scale
        options.word_cost = word_cost
        options.backoff_label = backoff_label
        cdef Automaton made
        with nogil:
            made = make_automaton(self.reader[0], options)
        return (_uint32_array(made.offsets), _uint32_array(made.targets), _uint32_array(made.labels),
                _float32_array(made.costs), _float32_array(made.finals), made.start)
