"""The border to the lexicon beam search: addresses in, answers out."""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arcbeam.lm._kenlm cimport KenLm, KenLmModel
from arcbeam.arrays._log_prob_engine cimport LogProbEngine
from arcbeam.arrays._log_probs cimport LogProbs
from arcbeam.core._pooled_engine cimport AnyEngine


cdef extern from "baseline/engine.hpp" namespace "arcbeam::baseline" nogil:
    cdef enum class Smearing(uint8_t):
        kNone
        kMax
        kLogAdd

    cdef struct Spellings:
        const uint16_t* columns
        const uint32_t* offsets
        const uint32_t* labels
        const float* scores
        size_t count

    cdef cppclass Trie:
        Trie(const Spellings&, Smearing) except +
        size_t size()

    cdef struct SearchOptions:
        uint32_t beam_size
        uint32_t beam_size_token
        double beam_threshold
        double lm_weight
        double word_score
        double unk_score
        double sil_score
        cbool log_add
        cbool repeat_last_token
        cbool final_separator
        uint16_t blank
        uint16_t silence
        uint16_t separator
        uint32_t unknown_label
        uint32_t nbest
        uint32_t collect_above

    cdef struct SpokenWord:
        uint32_t label
        uint32_t start
        uint32_t end
        uint32_t complete

    cdef cppclass Answer:
        double score
        double am_score
        double lm_score
        vector[SpokenWord] words
        vector[uint16_t] tokens

    cdef enum class Outcome(uint8_t):
        kDecoded
        kBadLogProb
        kOutOfMemory
        kCancelled

    cdef cppclass Result:
        vector[Answer] answers
        cbool complete
        Outcome outcome
        uint32_t bad_frame
        uint32_t bad_column

    cdef struct Model:
        const Trie* trie
        const KenLm* lm
        const vector[uint32_t]* words
        SearchOptions options

    cdef cppclass Engine(AnyEngine):
        Engine(const Model&, size_t threads) except +
        void start(vector[LogProbs]) except +
        const vector[Result]& results()


SMEARING = {"none": 0, "max": 1, "logadd": 2}


cdef class BaselineEngine(LogProbEngine):
    """A pool of lanes over one lexicon and language model. Calls from several Python threads take turns."""
    # A result: (complete, answers), best first; an answer: (score, am_score, lm_score, words, tokens uint16[frames]);
    # a word: (label, start, end, the frame that completes it). lexicon: None, or (columns uint16, offsets uint32, labels uint32, scores float32).
    # words: the model's number of each label, the last for unknown words. collect_above: entries of a lane's log.

    cdef Engine* engine
    cdef unique_ptr[Trie] trie
    cdef Model model
    cdef KenLmModel lm
    cdef vector[uint32_t] words

    def __cinit__(self, options, *, lexicon, KenLmModel lm, const uint32_t[::1] words, uint16_t blank,
                  uint16_t silence, uint16_t separator, uint32_t collect_above, size_t threads):
        cdef const uint16_t[::1] columns
        cdef const uint32_t[::1] offsets, labels
        cdef const float[::1] scores
        cdef Spellings spellings
        cdef Smearing mode
        cdef SearchOptions* search = &self.model.options
        self.lm = lm
        self.model.lm = NULL
        if lm is not None:
            self.model.lm = lm.lm.get()
        if words.shape[0] > 0:
            self.words.assign(&words[0], &words[0] + words.shape[0])
        self.model.words = &self.words
        search.beam_size, search.nbest = options.beam_size, options.nbest
        search.beam_size_token = options.beam_size_token or <uint32_t> 0x7fffffff  # all
        search.beam_threshold, search.lm_weight = options.beam_threshold, options.lm_weight
        search.sil_score, search.log_add = options.sil_score, options.log_add
        search.blank, search.silence, search.separator = blank, silence, separator
        search.unknown_label, search.collect_above = <uint32_t> words.shape[0] - 1, collect_above
        search.word_score, search.unk_score = 0.0, -INFINITY
        search.repeat_last_token, search.final_separator = False, True
        self.model.trie = NULL
        if lexicon is not None:
            search.word_score, search.unk_score = options.word_score, options.unk_score
            search.repeat_last_token, search.final_separator = options.repeat_last_token, options.final_separator
            mode = <Smearing> <uint8_t> SMEARING[options.smearing]
            columns, offsets, labels, scores = lexicon
            spellings = Spellings(&columns[0], &offsets[0], &labels[0], &scores[0], labels.shape[0])
            with nogil:
                self.trie.reset(new Trie(spellings, mode))
            self.model.trie = self.trie.get()
        self.threads = threads
        self.ready()

    cdef AnyEngine* new_pool(self) except NULL:
        self.engine = new Engine(self.model, self.threads)
        return self.engine

    def __dealloc__(self):
        self.close()

    @property
    def nodes(self):
        """Nodes of the trie."""
        return self.trie.get().size() if self.trie else 0

    cdef int start(self, vector[LogProbs] batch) except -1:
        self.engine.start(move(batch))
        return 0

    cdef list bad(self):
        cdef const Result* result
        bad = []
        for i in range(self.engine.results().size()):
            result = &self.engine.results()[i]
            if result.outcome == Outcome.kBadLogProb:
                bad.append((i, result.bad_frame, result.bad_column))
            if result.outcome == Outcome.kOutOfMemory:
                raise MemoryError(f"out of memory while decoding utterance {i}: use a smaller beam_size, or fewer "
                                  f"threads")
        return bad

    cdef object answers(self):
        return [self._answers(i) for i in range(self.engine.results().size())]

    cdef tuple _answers(self, size_t utterance):
        cdef const Result* result = &self.engine.results()[utterance]
        cdef const Answer* answer
        cdef uint16_t[::1] into
        cdef size_t a, i
        found = []
        for a in range(result.answers.size()):
            answer = &result.answers[a]
            tokens = np.empty(answer.tokens.size(), np.uint16)
            into = tokens
            for i in range(answer.tokens.size()):
                into[i] = answer.tokens[i]
            words = [(answer.words[i].label, answer.words[i].start, answer.words[i].end, answer.words[i].complete)
                     for i in range(answer.words.size())]
            found.append((answer.score, answer.am_score, answer.lm_score, words, tokens))
        return result.complete, found
