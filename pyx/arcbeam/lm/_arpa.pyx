# distutils: language = c++
"""Border to the ARPA reader in C++: takes words and blocks of text, returns the arrays of the automaton."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

import numpy as np

from arcbeam.lm._lm_view cimport LmArc

from arcbeam.core.errors import FormatError


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        string_view(const char*, size_t)


cdef extern from "arcbeam/lm/_arpa/reader.hpp" namespace "arcbeam::arpa" nogil:
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
        Reader(uint64_t) except +
        Reader(uint32_t, uint64_t) except +
        cbool lists_sentence_start()
        cbool add_word(string_view, uint32_t) except +
        uint64_t ngrams_read()
        const Trie& trie()
        const Tally& tally()


cdef extern from "arcbeam/lm/_arpa/automaton.hpp" namespace "arcbeam::arpa" nogil:
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


cdef extern from "arcbeam/lm/_arpa/layout.hpp" namespace "arcbeam::arpa" nogil:
    cdef cppclass LmColumns:
        vector[uint16_t] labels_low
        vector[uint32_t] labels_high
        vector[uint8_t] first_offsets
        vector[uint32_t] first_bases
        vector[uint32_t] wide_firsts
        vector[uint64_t] backoff_steps
        vector[uint32_t] backoff_bases
        vector[uint32_t] wide_backoffs
        vector[LmArc] arcs
        vector[float] backoff_weights
        vector[uint32_t] lengths
        vector[uint64_t] word_ends
        string text
        uint32_t high_bits
        uint32_t start
        uint64_t unnormalised
        double worst_sum
        string worst_history


cdef extern from "arcbeam/lm/_arpa/border.hpp" namespace "arcbeam::arpa" nogil:
    # Empty, or the message of the ArpaError that was thrown, with its line in front.
    cdef cppclass Outcome:
        cbool failed
        uint64_t line
        const char* text()
    Outcome feed(Reader&, const char*, size_t) except +
    Outcome finish(Reader&) except +
    Outcome lay_out(const Reader&, LmColumns&) except +


ctypedef fused Element:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float
    LmArc


cdef _array(vector[Element]& values, dtype):
    """The values as an array; the vector gives up its memory."""
    array = np.empty(values.size(), dtype=dtype)
    cdef unsigned char[::1] view
    if values.size():
        view = array.view(np.uint8)
        memcpy(&view[0], values.data(), values.size() * sizeof(Element))
    values.clear()
    values.shrink_to_fit()
    return array


cdef class ArpaReader:
    """Reads an ARPA file block by block; words: UTF-8, word i has the label i + 1, or None for the file's."""
    # N-grams with other words are left out and counted. ValueError for a word twice, <s> and </s>. `most_bytes` limits
    # the text, so that a header with more n-grams than fit is refused.

    cdef Reader* reader
    cdef object name
    cdef bint finished

    def __cinit__(self, words, name, uint64_t most_bytes):
        self.name = str(name)
        if words is None:
            self.reader = new Reader(most_bytes)
            return
        self.reader = new Reader(<uint32_t>len(words), most_bytes)
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
            at = f", line {outcome.line}" if outcome.line else ""
            raise FormatError(f"{self.name}{at}: {message}")

    def feed(self, const unsigned char[::1] block):
        """Reads the next bytes of the file; FormatError names the line."""
        cdef size_t size = block.shape[0]
        cdef const char* data = <const char*>&block[0] if size else NULL
        cdef Outcome outcome
        with nogil:
            outcome = feed(self.reader[0], data, size)
        self._check(outcome)

    def finish(self):
        """Marks the end of the file; FormatError if it ended too early."""
        cdef Outcome outcome = finish(self.reader[0])
        self._check(outcome)
        self.finished = True

    @property
    def ngrams_read(self):
        return self.reader.ngrams_read()

    def tally(self):
        """A dict that counts what was read and what was left out."""
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
        """The back-off automaton: offsets, targets, labels, costs, finals (arrays) and the start state."""
        # Arcs of a state are sorted by label, the back-off arc first if its label is 0, else last. Costs: natural logs.
        if not self.finished:
            raise RuntimeError("automaton() comes after finish()")
        cdef AutomatonOptions options
        options.scale = scale
        options.word_cost = word_cost
        options.backoff_label = backoff_label
        cdef Automaton made
        with nogil:
            made = make_automaton(self.reader[0], options)
        return (_array[uint32_t](made.offsets, np.uint32), _array[uint32_t](made.targets, np.uint32),
                _array[uint32_t](made.labels, np.uint32), _array[float](made.costs, np.float32),
                _array[float](made.finals, np.float32), made.start)

    def language_model(self):
        """The columns of `arcbeam.LanguageModel` by name, and the facts about them; of an open vocabulary alone."""
        if not self.finished:
            raise RuntimeError("language_model() comes after finish()")
        cdef LmColumns made
        cdef Outcome outcome
        with nogil:
            outcome = lay_out(self.reader[0], made)
        self._check(outcome)
        columns = {
            "labels.low": _array[uint16_t](made.labels_low, np.uint16),
            "labels.high": _array[uint32_t](made.labels_high, np.uint32),
            "first.offsets": _array[uint8_t](made.first_offsets, np.uint8),
            "first.bases": _array[uint32_t](made.first_bases, np.uint32),
            "first.wide": _array[uint32_t](made.wide_firsts, np.uint32),
            "backoff.steps": _array[uint64_t](made.backoff_steps, np.uint64),
            "backoff.bases": _array[uint32_t](made.backoff_bases, np.uint32),
            "backoff.wide": _array[uint32_t](made.wide_backoffs, np.uint32),
            "arcs": _array[LmArc](made.arcs, np.dtype([("next_state", "<u4"), ("weight", "<f4")])),
            "backoff.weights": _array[float](made.backoff_weights, np.float32),
            "lengths": _array[uint32_t](made.lengths, np.uint32),
            "words.ends": _array[uint64_t](made.word_ends, np.uint64),
            "words.text": np.frombuffer(<bytes> made.text, np.uint8),
        }
        about = {
            "high_bits": made.high_bits,
            "start": made.start,
            "has_sentence_start": bool(self.reader.lists_sentence_start()),
            "unnormalised": made.unnormalised,
            "worst_sum": made.worst_sum,
            "worst_history": (<bytes> made.worst_history).decode("utf-8", "replace"),
        }
        return columns, about
