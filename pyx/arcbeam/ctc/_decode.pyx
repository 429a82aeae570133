"""The border to the CPU engine: addresses in, paths out."""

import numpy as np

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arcbeam.graph._graph_view cimport GraphView, view_of
from arcbeam.lm._kenlm cimport KenLm, KenLmModel
from arcbeam.lm._lm_view cimport RescoringView, rescoring_view_of
from arcbeam.arrays._log_prob_engine cimport LogProbEngine
from arcbeam.arrays._log_probs cimport LogProbs
from arcbeam._pooled_engine cimport AnyEngine

from arcbeam.errors import CapacityError


cdef extern from "decode/engine.hpp" namespace "arcbeam::twin" nogil:
    cdef struct DecodeOptions:
        float beam
        uint32_t max_active
        float acoustic_scale
        float blank_penalty
        int32_t blank_column
        uint32_t collect_above

    cdef cppclass Path:
        vector[uint32_t] arcs
        double total_cost
        cbool reached_final
        cbool complete

    cdef struct Work:
        uint64_t frames
        uint64_t tokens
        uint64_t expanded_tokens
        uint64_t leaving_arcs
        uint64_t read_arcs
        uint64_t candidates
        uint64_t admitted
        uint64_t lookups
        uint64_t lookup_misses

    cdef enum class Outcome(uint8_t):
        kDecoded
        kBadLogProb
        kCapacity
        kOutOfMemory
        kCancelled

    cdef cppclass Result:
        Path path
        Work work
        Outcome outcome
        uint32_t bad_frame
        uint32_t bad_column

    cdef struct RescoringOptions:
        uint32_t hypotheses_per_state

    cdef struct KenLmView:
        const KenLm* lm
        const uint32_t* ranks
        RescoringView rescoring

    cdef cppclass Engine(AnyEngine):
        Engine(const GraphView&, const DecodeOptions&, size_t threads) except +
        Engine(const GraphView&, const DecodeOptions&, const RescoringView&, const RescoringOptions&,
               size_t threads) except +
        Engine(const GraphView&, const DecodeOptions&, const KenLmView&, const RescoringOptions&,
               size_t threads) except +
        void start(vector[LogProbs]) except +
        const vector[Result]& results()

    double cpp_graph_cost "arcbeam::twin::graph_cost"(const GraphView&, const uint32_t*, size_t, cbool)
    double automaton_deviation "arcbeam::twin::path_deviation<arcbeam::twin::AutomatonModels>"(
        const GraphView&, const RescoringView&, const uint32_t*, size_t, cbool) except +
    double kenlm_deviation "arcbeam::twin::path_deviation<arcbeam::twin::KenLmModels>"(
        const GraphView&, const KenLmView&, const uint32_t*, size_t, cbool) except +


cdef KenLmView kenlm_view_of(rescoring):
    """The view of an arcbeam.ctc.rescoring.Rescoring with a KenLM model, valid as long as that lives."""
    cdef KenLmModel model = rescoring.kenlm
    cdef const uint32_t[::1] ranks = rescoring.ranks
    return KenLmView(model.lm.get(), &ranks[0], rescoring_view_of(rescoring))


def graph_cost(graph, const uint32_t[::1] arcs, cbool reached_final):
    """The graph's part of a path's cost."""
    cdef const uint32_t* first = &arcs[0] if arcs.shape[0] else NULL
    return cpp_graph_cost(view_of(graph), first, arcs.shape[0], reached_final)


def rescoring_cost(graph, rescoring, const uint32_t[::1] arcs, cbool reached_final):
    """The cost that rescoring added to a path."""
    cdef const uint32_t* first = &arcs[0] if arcs.shape[0] else NULL
    if rescoring.kenlm is not None:
        return kenlm_deviation(view_of(graph), kenlm_view_of(rescoring), first, arcs.shape[0], reached_final)
    return automaton_deviation(view_of(graph), rescoring_view_of(rescoring), first, arcs.shape[0], reached_final)


cdef class CpuEngine(LogProbEngine):
    """A pool of lanes over one graph. Calls from several Python threads take turns.

    An answer is (arcs uint32[n], total_cost, reached_final, complete); that of an utterance with values that are no
    log-probs has no arcs.

    Parameters
    ----------
    graph : arcbeam.Graph
    options : arcbeam.DecoderOptions
    threads : int
    collect_above : int
        Entries of a token log that a lane gathers before it first drops what no token descends from.
    rescoring : arcbeam.ctc.rescoring.Rescoring, optional
        If it is given, the lanes rescore.
    """

    cdef Engine* engine
    cdef DecodeOptions options
    cdef size_t threads
    cdef object graph
    cdef object rescoring
    cdef RescoringOptions rescoring_options

    def __cinit__(self, graph, options, *, size_t threads, uint32_t collect_above, rescoring=None):
        self.graph = graph
        self.rescoring = rescoring
        self.rescoring_options = RescoringOptions(options.hypotheses_per_state or 0)
        self.options = DecodeOptions(options.beam, options.max_active or 0, options.acoustic_scale,
                                     options.blank_penalty, -1 if graph.blank is None else graph.blank, collect_above)
        self.threads = threads
        self.ready()

    cdef AnyEngine* new_pool(self) except NULL:
        if self.rescoring is None:
            self.engine = new Engine(view_of(self.graph), self.options, self.threads)
        elif self.rescoring.kenlm is not None:
            self.engine = new Engine(view_of(self.graph), self.options, kenlm_view_of(self.rescoring),
                                     self.rescoring_options, self.threads)
        else:
            self.engine = new Engine(view_of(self.graph), self.options, rescoring_view_of(self.rescoring),
                                     self.rescoring_options, self.threads)
        return self.engine

    def __dealloc__(self):
        self.close()

    def memory(self):
        """dict : bytes of the graph's columns and of the language models that rescore."""
        columns = (self.graph.states, self.graph.targets, self.graph.columns, self.graph.words, self.graph.finals)
        return {"graph": sum([column.nbytes for column in columns]),
                "language_models": 0 if self.rescoring is None else self.rescoring.nbytes}

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
                raise MemoryError(f"out of memory while decoding utterance {i}: use a smaller beam or max_active, "
                                  f"or fewer threads")
            if result.outcome == Outcome.kCapacity:
                raise CapacityError(f"utterance {i} keeps more than 2**32 tokens alive: use a smaller beam or "
                                    f"max_active")
        return bad

    cdef list answers(self):
        cdef const Result* result
        cdef uint32_t[::1] into
        paths = []
        for i in range(self.engine.results().size()):
            result = &self.engine.results()[i]
            arcs = np.empty(result.path.arcs.size(), dtype=np.uint32)
            if result.path.arcs.size() > 0:
                into = arcs
                memcpy(&into[0], result.path.arcs.data(), result.path.arcs.size() * sizeof(uint32_t))
            paths.append((arcs, result.path.total_cost, result.path.reached_final, result.path.complete))
        return paths

    cdef dict work(self):
        cdef Work total
        cdef const Work* work
        total = Work(0, 0, 0, 0, 0, 0, 0, 0, 0)
        for i in range(self.engine.results().size()):
            work = &self.engine.results()[i].work
            total.frames += work.frames
            total.tokens += work.tokens
            total.expanded_tokens += work.expanded_tokens
            total.leaving_arcs += work.leaving_arcs
            total.read_arcs += work.read_arcs
            total.candidates += work.candidates
            total.admitted += work.admitted
            total.lookups += work.lookups
            total.lookup_misses += work.lookup_misses
        return total
