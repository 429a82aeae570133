"""The border to the prefix search: tokens of frames in, answers out."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arcbeam.core._pooled_engine cimport AnyEngine, PooledEngine
from arcbeam.lm._kenlm cimport KenLm, KenLmModel


cdef extern from "prefix/engine.hpp" namespace "arcbeam::prefix" nogil:
    cdef enum class Kind(uint8_t):
        pass

    cdef cppclass SortedWords:
        SortedWords()
        SortedWords(vector[string])

    cdef cppclass Symbol:
        uint32_t number
        Kind kind
        string text
        string fresh
        cbool ends

    cdef cppclass Model:
        vector[Symbol] symbols
        const KenLm* lm
        SortedWords vocabulary

    cdef cppclass Request:
        double alpha
        double beta
        double unknown
        double to_natural
        cbool boundary
        uint32_t beam_width
        double beam_prune
        cbool prune_history
        uint32_t nbest
        SortedWords hotwords
        double hotword_weight
        vector[unsigned char] start

    cdef struct Utterance:
        const int64_t* offsets
        const uint32_t* columns
        const double* log_probs
        size_t frames
        const Request* request

    cdef struct Frames:
        int32_t start
        int32_t end

    cdef cppclass Answer:
        string text
        vector[Frames] frames
        double acoustic
        double score
        vector[unsigned char] state

    cdef enum class Outcome(uint8_t):
        kDecoded
        kOutOfMemory
        kCancelled

    cdef cppclass Result:
        vector[Answer] answers
        Outcome outcome

    cdef cppclass Engine(AnyEngine):
        Engine(const Model&, size_t threads) except +
        void start(vector[Utterance]) except +
        const vector[Result]& results()


KINDS = {"blank": 0, "space": 1, "start": 2, "inside": 3}


cdef class PrefixEngine(PooledEngine):
    """A pool of lanes over the symbols of a model and its language model. Calls from several threads take turns."""
    # symbols: (number, kind, text, fresh, ends) of each column, texts as UTF-8. vocabulary: words as UTF-8, sorted.

    cdef Engine* engine
    cdef Model model
    cdef KenLmModel lm

    def __cinit__(self, *, symbols, KenLmModel lm, list vocabulary, size_t threads):
        cdef Symbol symbol
        self.lm = lm
        self.model.lm = NULL
        if lm is not None:
            self.model.lm = lm.lm.get()
        for number, kind, text, fresh, ends in symbols:
            symbol.number, symbol.kind, symbol.text = number, <Kind> <uint8_t> KINDS[kind], text
            symbol.fresh, symbol.ends = fresh, ends
            self.model.symbols.push_back(symbol)
        self.model.vocabulary = SortedWords(vocabulary)
        self.threads = threads
        self.ready()

    cdef AnyEngine* new_pool(self) except NULL:
        self.engine = new Engine(self.model, self.threads)
        return self.engine

    def __dealloc__(self):
        self.close()

    def decode(self, list batch, *, double alpha, double beta, double unknown, double to_natural, bint boundary,
               uint32_t beam_width, double beam_prune, bint prune_history, uint32_t nbest, list hotwords,
               double hotword_weight, bytes start):
        """Decodes (offsets int64[frames + 1], columns uint32[], log-probs float64[]) of each utterance.

        Answers, best first: (text, frames of its words, acoustic score, score, state of the language model).
        """
        cdef Request request
        cdef vector[Utterance] utterances
        cdef const int64_t[::1] offsets
        cdef const uint32_t[::1] columns
        cdef const double[::1] log_probs
        request.alpha, request.beta, request.unknown, request.to_natural = alpha, beta, unknown, to_natural
        request.boundary, request.beam_width, request.beam_prune = boundary, beam_width, beam_prune
        request.prune_history, request.nbest = prune_history, nbest
        request.hotwords, request.hotword_weight = SortedWords(hotwords), hotword_weight
        for byte in start:
            request.start.push_back(byte)
        for offsets, columns, log_probs in batch:
            if columns.shape[0] == 0:
                utterances.push_back(Utterance(&offsets[0], NULL, NULL, 0, &request))
            else:
                utterances.push_back(Utterance(&offsets[0], &columns[0], &log_probs[0], offsets.shape[0] - 1, &request))
        with self.decoding_lock():
            self.ready()
            self.engine.start(move(utterances))
            self.finish()
            return [self._answers(i) for i in range(self.engine.results().size())]

    cdef list _answers(self, size_t utterance):
        cdef const Result* result = &self.engine.results()[utterance]
        cdef const Answer* answer
        cdef size_t a, i
        if result.outcome == Outcome.kOutOfMemory:
            raise MemoryError(f"out of memory while decoding utterance {utterance}: use a smaller beam_width")
        found = []
        for a in range(result.answers.size()):
            answer = &result.answers[a]
            frames = [(answer.frames[i].start, answer.frames[i].end) for i in range(answer.frames.size())]
            state = bytes(bytearray(answer.state)) if answer.state.size() else b""
            found.append((answer.text.decode(), frames, answer.acoustic, answer.score, state))
        return found
