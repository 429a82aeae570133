"""The border to the CPU engine: addresses in, paths out."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arcbeam.graph._graph_view cimport GraphView, NewWordsView, OpenGraph, open_view_of, view_of
from arcbeam.lm._lm_view cimport RescoringView, rescoring_view_of
from arcbeam.arrays._log_prob_engine cimport LogProbEngine
from arcbeam.arrays._log_probs cimport LogProbs
from arcbeam.arrays._input_checks cimport InputChecks
from arcbeam.ctc.boost._boost cimport BoostList, BoostView, each
from arcbeam.ctc.streams._endpoint cimport EndpointRules, take_rules
from arcbeam.lm._kenlm_view cimport KenLmView, kenlm_view_of
from arcbeam.ctc.lattice._lattices cimport Lattice, Lattices
from arcbeam.ctc.streams._rounds cimport SearchState
from arcbeam.graph._words cimport GrowingPath
from arcbeam.ctc.streams._saved_search cimport LmContext, SavedSearch, fields_of, take_lm_context, take_saved
from arcbeam.core._pooled_engine cimport AnyEngine

from arcbeam.arrays.batches import start_states
from arcbeam.core.errors import CapacityError


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
        Lattice lattice
        Work work
        Outcome outcome
        uint32_t bad_frame
        uint32_t bad_column

    cdef struct RescoringOptions:
        uint32_t hypotheses_per_state

    cdef cppclass EndpointWatch:
        EndpointWatch(const EndpointRules&)
        uint32_t fired()

    cdef enum class Extent(uint8_t):
        kAlive
        kAll

    cdef cppclass Stream:
        vector[uint32_t] settled
        uint64_t frames
        EndpointWatch watch
        LmContext lm_context
        float lattice_beam
        cbool shows_lattice
        cbool is_whole()
        cbool has_given_lattice()
        cbool has_begun()
        void restore(SavedSearch) except +
        SavedSearch save(Extent) except +

    cdef struct Utterance:
        LogProbs logp
        uint32_t start
        const BoostView* boost
        const NewWordsView* new_words
        Stream* stream
        cbool last

    cdef cppclass Engine(AnyEngine):
        Engine(const GraphView&, const DecodeOptions&, size_t threads) except +
        Engine(const GraphView&, const DecodeOptions&, const RescoringView&, const RescoringOptions&,
               size_t threads) except +
        Engine(const GraphView&, const DecodeOptions&, const KenLmView&, const RescoringOptions&,
               size_t threads) except +
        void start(vector[Utterance], float lattice_beam) except +
        vector[Result]& results()

    const float kNoLattice
    double cpp_graph_cost "arcbeam::twin::graph_cost"(const OpenGraph&, const uint32_t*, size_t, cbool)
    double automaton_deviation "arcbeam::twin::path_deviation<arcbeam::twin::AutomatonModels>"(
        const OpenGraph&, const RescoringView&, const LmContext&, const uint32_t*, size_t, cbool) except +
    double kenlm_deviation "arcbeam::twin::path_deviation<arcbeam::twin::KenLmModels>"(
        const OpenGraph&, const KenLmView&, const LmContext&, const uint32_t*, size_t, cbool) except +


def graph_cost(graph, const uint32_t[::1] arcs, cbool reached_final):
    """The graph's part of a path's cost."""
    cdef const uint32_t* first = &arcs[0] if arcs.shape[0] else NULL
    return cpp_graph_cost(open_view_of(graph), first, arcs.shape[0], reached_final)


def rescoring_cost(graph, rescoring, const uint32_t[::1] arcs, cbool reached_final, lm_context=None):
    """The cost that rescoring added to a path, after the context `lm_context`, an LmContext of ctc.streams.sentences."""
    cdef const uint32_t* first = &arcs[0] if arcs.shape[0] else NULL
    cdef LmContext before
    take_lm_context(lm_context, before)
    if rescoring.kenlm is not None:
        return kenlm_deviation(open_view_of(graph), kenlm_view_of(rescoring), before, first, arcs.shape[0],
                               reached_final)
    return automaton_deviation(open_view_of(graph), rescoring_view_of(rescoring), before, first, arcs.shape[0],
                               reached_final)


def frames_along(const uint32_t[::1] sources, const uint8_t[::1] reads, int64_t first):
    """int64[entries]: frames before each entry of a log, sources first; `reads` marks entries that read a frame."""
    found = np.empty(sources.shape[0], np.int64)
    cdef int64_t[::1] frames = found
    cdef Py_ssize_t i
    if sources.shape[0] > 0:
        frames[0] = first
    for i in range(1, sources.shape[0]):
        frames[i] = frames[sources[i]] + reads[i]
    return found


cdef class CpuStream(SearchState):
    """A sentence of a stream between two chunks; takes no frame after an endpoint. `saved` must have been checked."""

    cdef Stream stream
    cdef BoostList boost

    def __init__(self, BoostList boost, rules=None, lm_context=None, saved=None, lattice_beam=None):
        cdef EndpointRules of_sentence
        cdef SavedSearch search
        self.boost = boost
        take_lm_context(lm_context, self.stream.lm_context)
        take_rules(rules, &of_sentence)
        self.stream.watch = EndpointWatch(of_sentence)
        self.stream.lattice_beam = kNoLattice if lattice_beam is None else lattice_beam
        if saved is not None:
            take_saved(saved, search)
            self.stream.restore(move(search))

    @property
    def frames(self):
        """The frames of the sentence so far."""
        return self.stream.frames

    @property
    def has_begun(self):
        """Whether it has had a chunk."""
        return self.stream.has_begun()

    @property
    def fired(self):
        """The number of the rule that has ended the sentence, from 1; 0 if it has not ended."""
        return self.stream.watch.fired()

    def search(self, bint with_lattice=False):
        """The fields of SavedSearch but `settled` and `dead_frames`. `with_lattice`: of a search that keeps links."""
        return fields_of(self.stream.save(Extent.kAll if with_lattice else Extent.kAlive), with_lattice)

    cdef uint64_t frames_taken(self) except? 0:
        return self.stream.frames

    cdef bint is_at(self, uint64_t frames, bint is_final) except -1:
        return (self.stream.is_whole() and self.stream.frames == frames
                and (is_final or not self.stream.has_given_lattice()))

    cdef uint32_t rule_fired(self) except? 0xffffffff:
        return self.stream.watch.fired()

    cdef uint32_t hand_over(self, GrowingPath path) except? 0xffffffff:
        if self.stream.settled.size() > 0:
            path.add(self.stream.settled.data(), self.stream.settled.size())
            self.stream.settled.clear()
        return self.stream.watch.fired()


cdef class CpuEngine(LogProbEngine):
    """A pool of lanes over one graph; calls take turns. `collect_above`: entries and links that start a collection."""

    cdef Engine* engine
    cdef DecodeOptions options
    cdef float lattice_beam  # of the batch that is being decoded
    cdef list boosts
    cdef object starts  # uint32 [utterances]: the states in which searches begin; None: the start state of the graph
    cdef object streams  # whose chunks the batch is; or None
    cdef object last
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

    def decode(self, const int64_t[:, ::1] utterances, uint32_t columns, bint on_host=True, InputChecks checks=None,
               lattice_beam=None, boosts=None, streams=None, last=None, starts=None):
        """As LogProbEngine.decode: the fields of Paths, and any Lattices; the paths of bad utterances have no arcs."""
        # With `streams`, utterances are their next chunks. Paths then start after the settled part, and lattices are
        # those of streams that keep links and either have ended now or show theirs; each stream has its own beam.
        # `starts`: the state in which each search begins, see `start_states`.
        plain = lattice_beam is None and boosts is None and streams is None and self.rescoring is None
        starts = start_states(starts, utterances.shape[0], self.graph.num_states, plain)
        if streams is None:
            boosts = each(boosts, utterances.shape[0])
        elif len(streams) == utterances.shape[0]:
            boosts = [(<CpuStream?> stream).boost for stream in streams]
        else:
            raise ValueError(f"streams: expected one for each of {utterances.shape[0]} chunks, got {len(streams)}")
        with self.decoding_lock():
            self.lattice_beam = kNoLattice if lattice_beam is None else lattice_beam
            self.boosts, self.streams, self.last, self.starts = boosts, streams, last, starts
            try:
                return self.decode_now(utterances, columns, checks)
            finally:
                self.boosts = self.streams = self.last = self.starts = None

    def new_stream(self, boost=None, rules=None, lm_context=None, saved=None, lattice_beam=None):
        """A CpuStream, new or from what another one has saved."""
        return CpuStream(boost, rules, lm_context, saved, lattice_beam)

    cdef int start(self, vector[LogProbs] batch) except -1:
        cdef vector[Utterance] boosted
        cdef CpuStream stream
        cdef BoostList boost
        cdef size_t i
        boosted.resize(batch.size())
        for i in range(batch.size()):
            boosted[i].logp = batch[i]
            if self.starts is not None:
                boosted[i].start = self.starts[i]
            boost = self.boosts[i]
            if boost is not None:
                boosted[i].boost = &boost.view
                if boost.new_words is not None:
                    boosted[i].new_words = &boost.new_words_view
            if self.streams is not None:
                stream = self.streams[i]
                stream.stream.shows_lattice = stream.shows_lattice
                boosted[i].stream, boosted[i].last = &stream.stream, self.last[i]
        self.engine.start(move(boosted), self.lattice_beam)
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
                raise CapacityError(f"utterance {i} keeps more than 2**32 tokens alive, or links of its lattice: use "
                                    f"a smaller beam, max_active or lattice_beam")
        return bad

    cdef object answers(self):
        cdef const Result* result
        cdef size_t utterances = self.engine.results().size(), i, sum_of_lengths = 0, length
        for i in range(utterances):
            sum_of_lengths += self.engine.results()[i].path.arcs.size()
        found = (np.empty(sum_of_lengths, np.uint32), np.empty(utterances, np.int64), np.empty(utterances, np.int64),
                 np.empty(utterances), np.empty(utterances, np.bool_), np.empty(utterances, np.bool_))
        cdef uint32_t[::1] arcs = found[0]
        cdef int64_t[::1] begins = found[1], lengths = found[2]
        cdef double[::1] total_costs = found[3]
        cdef uint8_t[::1] reached_final = found[4].view(np.uint8), complete = found[5].view(np.uint8)
        sum_of_lengths = 0
        for i in range(utterances):
            result = &self.engine.results()[i]
            length = result.path.arcs.size()
            if length > 0:
                memcpy(&arcs[sum_of_lengths], result.path.arcs.data(), length * sizeof(uint32_t))
            begins[i], lengths[i], total_costs[i] = sum_of_lengths, length, result.path.total_cost
            reached_final[i], complete[i] = result.path.reached_final, result.path.complete
            sum_of_lengths += length
        return found if self.lattice_beam == kNoLattice else (*found, self.lattices())

    cdef Lattices lattices(self):
        """Takes those of the batch out of the results."""
        cdef Lattices lattices = Lattices()
        lattices.found.resize(self.engine.results().size())
        for i in range(self.engine.results().size()):
            lattices.found[i] = move(self.engine.results()[i].lattice)
        return lattices

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
