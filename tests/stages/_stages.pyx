# distutils: extra_compile_args = -O3
"""Each stage of the CPU twin by itself, for tests and benchmarks: arrays in, arrays out.

Tokens, candidates and log entries are structured arrays (TOKEN, CANDIDATE, LOG_ENTRY below).
"""

import numpy as np

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from cython.operator cimport dereference as deref
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from arcbeam.graph._graph_view cimport GraphView, view_of
from arcbeam.lm._lm_view cimport Deviation, History, RescoringView, rescoring_view_of
from arcbeam.arrays._log_probs cimport LogProbs
from arcbeam.ctc.lattice._lattices cimport Lattice, Lattices

TOKEN = np.dtype([("state", "<u4"), ("cost", "<f4")])
CANDIDATE = np.dtype([("cost", "<f4"), ("arc", "<u4"), ("state", "<u4"), ("source", "<u4")])
HISTORY = np.dtype([("large", "<u4"), ("small", "<u4")])
DEVIATION = np.dtype([("cost", "<f4"), ("next", HISTORY)])
LOG_ENTRY = np.dtype([("source", "<u4"), ("arc", "<u4")])
NO_SOURCE = NO_ARC = 0xFFFFFFFF


cdef extern from "decode/lane.hpp" namespace "arcbeam::twin" nogil:
    cdef struct Token:
        uint32_t state
        float cost

    cdef struct Candidate:
        float cost
        uint32_t arc
        uint32_t state
        uint32_t source

    cdef struct LogEntry:
        uint32_t source
        uint32_t arc

    cdef struct Work:
        uint64_t expanded_tokens
        uint64_t leaving_arcs
        uint64_t read_arcs
        uint64_t candidates
        uint64_t admitted
        uint64_t lookups
        uint64_t lookup_misses

    cdef cppclass Buffer[T]:
        size_t size()
        T* begin()
        void resize(size_t)
        void clear()

    cdef cppclass Cutoff:
        float cost
        cbool breaks_ties
        Buffer[uint8_t] excluded
        const uint8_t* marks()

    ctypedef Buffer[Candidate] Frontier

    cdef cppclass Acoustic:
        void begin(float, float, int32_t)
        void load(const LogProbs&, uint32_t) except +
        float operator[](uint32_t)

    cdef cppclass CppWideStates "arcbeam::twin::WideStates":
        CppWideStates(const GraphView&) except +
        size_t bytes()

    cdef cppclass CheapColumns:
        pass

    cdef cppclass Expand "arcbeam::twin::Expand<arcbeam::GraphView>":
        Expand(const GraphView&, const CppWideStates&, Acoustic&, float, CheapColumns&, Buffer[Candidate]&, Work&)
        float run "operator()"(const Buffer[Token]&, uint32_t, const Cutoff&) except +

    cdef cppclass StateTable:
        void begin_frame(size_t) except +

    cdef cppclass Closure:
        void begin(const GraphView&) except +
        void run "operator()"(const GraphView&, float, uint32_t, StateTable&, Frontier&) except +

    cdef cppclass CppTokenLog "arcbeam::twin::TokenLog":
        void begin(uint32_t)
        uint32_t size()
        uint32_t settled()
        const LogEntry& operator[](uint32_t)

    cdef cppclass Path:
        vector[uint32_t] arcs
        double total_cost
        cbool reached_final

    void cpp_recombine "arcbeam::twin::recombine"(
        const Buffer[Candidate]&, float, StateTable&, Frontier&, Work&) except +
    float cpp_prune "arcbeam::twin::prune"(const Frontier&, Buffer[Token]&, CppTokenLog&) except +
    Path cpp_backtrack "arcbeam::twin::backtrack"(
        const GraphView&, const Buffer[Token]&, const CppTokenLog&, double, cbool) except +


cdef extern from "tests/stages/link_stages.hpp" namespace "arcbeam::twin" nogil:
    cdef cppclass Reached:
        Buffer[Candidate] candidates
        Buffer[uint32_t] slots

    void cpp_reach "arcbeam::twin::reach"(
        const GraphView&, const Buffer[Candidate]&, float, uint32_t, Reached&, Frontier&) except +

    cdef cppclass CppLinkStages "arcbeam::twin::LinkStages":
        CppLinkStages(float, uint32_t) except +
        void commit(const Buffer[Candidate]&, const uint32_t*, const Frontier&) except +
        uint32_t entries()
        Lattice finish(const GraphView&, cbool) except +


cdef extern from "tests/stages/history_stages.hpp" namespace "arcbeam::twin" nogil:
    cdef cppclass LookupCache "arcbeam::twin::LookupCache<arcbeam::twin::AutomatonModels>":
        void begin() except +

    cdef cppclass AutomatonModels:
        AutomatonModels(const RescoringView&)

    void cpp_cutoff "arcbeam::twin::cutoff"(
        const Buffer[Token]&, const Buffer[History]&, float, uint32_t, Cutoff&) except +
    void cpp_lookup "arcbeam::twin::lookup"(
        const GraphView&, AutomatonModels&, float, const Buffer[History]&, uint32_t, LookupCache&,
        Buffer[Candidate]&, Buffer[Deviation]&, Work&) except +
    float cpp_rescore "arcbeam::twin::rescore"(const Buffer[Deviation]&, float, Buffer[Candidate]&, cbool&)

    cdef struct RescoringOptions:
        uint32_t hypotheses_per_state

    cdef cppclass CppHistoryStages "arcbeam::twin::HistoryStages":
        CppHistoryStages(const GraphView&, const RescoringView&, const RescoringOptions&) except +
        History start()
        void recombine(const Buffer[Candidate]&, const Buffer[Deviation]&, float, const Buffer[History]&,
                       uint32_t) except +
        void close() except +
        void compact() except +
        const Frontier& frontier()
        const Buffer[History]& histories()
        Path backtrack(const Buffer[Token]&, const CppTokenLog&) except +


cdef int fill_tokens(Buffer[Token]& buffer, tokens) except -1:
    cdef const unsigned char[::1] source = np.ascontiguousarray(tokens, dtype=TOKEN).view(np.uint8)
    buffer.resize(len(tokens))
    if len(tokens):
        memcpy(buffer.begin(), &source[0], source.shape[0])
    return 0


cdef int fill_candidates(Buffer[Candidate]& buffer, candidates) except -1:
    cdef const unsigned char[::1] source = np.ascontiguousarray(candidates, dtype=CANDIDATE).view(np.uint8)
    buffer.resize(len(candidates))
    if len(candidates):
        memcpy(buffer.begin(), &source[0], source.shape[0])
    return 0


cdef int fill_histories(Buffer[History]& buffer, histories) except -1:
    cdef const unsigned char[::1] source = np.ascontiguousarray(histories, dtype=HISTORY).view(np.uint8)
    buffer.resize(len(histories))
    if len(histories):
        memcpy(buffer.begin(), &source[0], source.shape[0])
    return 0


cdef int fill_deviations(Buffer[Deviation]& buffer, deviations) except -1:
    cdef const unsigned char[::1] source = np.ascontiguousarray(deviations, dtype=DEVIATION).view(np.uint8)
    buffer.resize(len(deviations))
    if len(deviations):
        memcpy(buffer.begin(), &source[0], source.shape[0])
    return 0


cdef copy_out(const void* data, size_t count, dtype):
    array = np.empty(count, dtype=dtype)
    cdef unsigned char[::1] into
    if count:
        into = array.view(np.uint8)
        memcpy(&into[0], data, into.shape[0])
    return array


cdef class AcousticCosts:
    """Acoustic costs of one frame: float32[columns] log-probs under scale and blank penalty."""

    cdef Acoustic acoustic
    cdef object row

    def __cinit__(self, row, *, float acoustic_scale=1.0, float blank_penalty=0.0, int32_t blank=-1):
        self.row = np.ascontiguousarray(row)
        if self.row.ndim != 1 or self.row.dtype not in (np.float32, np.float16):
            raise ValueError(f"expected float32[columns] or float16[columns], got {self.row.dtype} {self.row.shape}")
        cdef LogProbs logp = LogProbs(<const void*> <uintptr_t> self.row.ctypes.data, len(self.row), 1, len(self.row),
                                      self.row.dtype == np.float16)
        self.acoustic.begin(acoustic_scale, blank_penalty, blank)
        self.acoustic.load(logp, 0)

    def costs(self):
        """float32[columns]"""
        return np.array([self.acoustic[i] for i in range(len(self.row))], dtype=np.float32)


def cutoff(tokens, float beam, uint32_t max_active, histories=None):
    """Returns (the largest cost that may leave, bool[n] of the tokens that leave).

    ``max_active`` 0 for no limit; `histories` are those of the tokens, if they have any.
    """
    cdef Buffer[Token] buffer
    cdef Buffer[History] of_tokens
    cdef Cutoff cut
    fill_tokens(buffer, tokens)
    if histories is not None:
        fill_histories(of_tokens, histories)
    cpp_cutoff(buffer, of_tokens, beam, max_active, cut)
    cdef size_t i
    cdef const uint8_t* excluded = cut.marks()
    leave = np.empty(buffer.size(), np.bool_)
    cdef unsigned char[::1] leaves = leave.view(np.uint8)
    for i in range(buffer.size()):
        leaves[i] = buffer.begin()[i].cost <= cut.cost and (excluded == NULL or excluded[i] == 0)
    return cut.cost, leave


cdef class WideStates:
    """The wide states of a graph, as an engine makes them."""

    cdef unique_ptr[CppWideStates] states

    def __init__(self, graph):
        self.states.reset(new CppWideStates(view_of(graph)))

    @property
    def bytes(self):
        return deref(self.states).bytes()


def expand(graph, tokens, uint32_t first_log, leave, AcousticCosts acoustic, float beam, WideStates wide=None):
    """Returns (candidates, bound, work); `leave` is the second result of `cutoff`; `wide` are the graph's states."""
    cdef Buffer[Token] buffer
    cdef Cutoff cut
    cdef Buffer[Candidate] candidates
    cdef CheapColumns cheap
    cdef Work work
    cdef GraphView view = view_of(graph)
    cdef const unsigned char[::1] leaves = np.ascontiguousarray(leave, dtype=np.bool_).view(np.uint8)
    cdef size_t i
    wide = wide or WideStates(graph)
    fill_tokens(buffer, tokens)
    cut.cost = np.inf
    cut.breaks_ties = True
    cut.excluded.resize(leaves.shape[0])
    for i in range(cut.excluded.size()):
        cut.excluded.begin()[i] = leaves[i] == 0
    cdef Expand* stage = new Expand(view, deref(wide.states), acoustic.acoustic, beam, cheap, candidates, work)
    try:
        bound = stage.run(buffer, first_log, cut)
    finally:
        del stage
    return copy_out(candidates.begin(), candidates.size(), CANDIDATE), bound, dict(work)


def lookup(graph, rescoring, candidates, float bound, histories, uint32_t first_log):
    """Returns (the candidates within the bound, their deviations, work); `histories` are those of the tokens."""
    cdef Buffer[Candidate] buffer
    cdef Buffer[History] of_tokens
    cdef Buffer[Deviation] deviations
    cdef LookupCache cache
    cdef Work work
    fill_candidates(buffer, candidates)
    fill_histories(of_tokens, histories)
    cache.begin()
    cdef AutomatonModels* models = new AutomatonModels(rescoring_view_of(rescoring))
    try:
        cpp_lookup(view_of(graph), models[0], bound, of_tokens, first_log, cache, buffer, deviations, work)
    finally:
        del models
    return (copy_out(buffer.begin(), buffer.size(), CANDIDATE),
            copy_out(deviations.begin(), deviations.size(), DEVIATION), dict(work))


def rescore(candidates, deviations, float beam):
    """Returns (candidates with their rescored costs, bound, whether one is finite)."""
    cdef Buffer[Candidate] buffer
    cdef Buffer[Deviation] added
    cdef cbool alive = False
    fill_candidates(buffer, candidates)
    fill_deviations(added, deviations)
    bound = cpp_rescore(added, beam, buffer, alive)
    return copy_out(buffer.begin(), buffer.size(), CANDIDATE), bound, alive


def recombine(candidates, float bound):
    """Returns the frontier: one winner a state."""
    cdef Buffer[Candidate] buffer
    cdef StateTable table
    cdef Frontier frontier
    cdef Work work
    fill_candidates(buffer, candidates)
    table.begin_frame(buffer.size())
    cpp_recombine(buffer, bound, table, frontier, work)
    return copy_out(frontier.begin(), frontier.size(), CANDIDATE)


def closure(graph, frontier, float bound, uint32_t first_log):
    """Returns the frontier with everything its epsilon arcs reach within the bound."""
    cdef Buffer[Candidate] buffer
    cdef StateTable table
    cdef Frontier closed
    cdef Work work
    cdef Closure stage
    cdef GraphView view = view_of(graph)
    fill_candidates(buffer, frontier)
    table.begin_frame(buffer.size())
    cpp_recombine(buffer, bound, table, closed, work)
    stage.begin(view)
    stage.run(view, bound, first_log, table, closed)
    return copy_out(closed.begin(), closed.size(), CANDIDATE)


def reach(graph, candidates, float bound, uint32_t first_log):
    """Returns (the candidates that recombine and closure admit, uint32[n] of their slots, the frontier)."""
    cdef Buffer[Candidate] buffer
    cdef Frontier frontier
    cdef Reached reached
    fill_candidates(buffer, candidates)
    cpp_reach(view_of(graph), buffer, bound, first_log, reached, frontier)
    return (copy_out(reached.candidates.begin(), reached.candidates.size(), CANDIDATE),
            copy_out(reached.slots.begin(), reached.slots.size(), np.uint32),
            copy_out(frontier.begin(), frontier.size(), CANDIDATE))


cdef class LinkLog:
    """A log of tokens and links, from the start of an utterance; sources are entries of it."""

    cdef CppLinkStages* stages

    def __cinit__(self, float lattice_beam, uint32_t collect_above=1 << 22):
        self.stages = new CppLinkStages(lattice_beam, collect_above)

    def __dealloc__(self):
        del self.stages

    def __len__(self):
        return self.stages.entries()

    def commit(self, candidates, const uint32_t[::1] slots, frontier):
        """Ends a frame: the candidates that it admitted with their slots, in order, and its frontier."""
        cdef Buffer[Candidate] given, winners
        fill_candidates(given, candidates)
        fill_candidates(winners, frontier)
        self.stages.commit(given, &slots[0], winners)

    def finish(self, graph, *, cbool alive=True):
        """The lattice of the utterance, as `arcbeam.ctc.lattice._lattices.Lattices.arrays` gives it."""
        cdef Lattices found = Lattices()
        found.found.push_back(self.stages.finish(view_of(graph), alive))
        return found.arrays(0)


cdef class TokenLog:
    """A token log and the tokens of its last frame."""

    cdef CppTokenLog log
    cdef Buffer[Token] tokens

    def __cinit__(self, uint32_t collect_above):
        self.log.begin(collect_above)

    def prune(self, frontier):
        """Appends a complete frame; returns (tokens, best)."""
        cdef Buffer[Candidate] buffer
        fill_candidates(buffer, frontier)
        best = cpp_prune(buffer, self.tokens, self.log)
        return copy_out(self.tokens.begin(), self.tokens.size(), TOKEN), best

    def entries(self):
        """LOG_ENTRY[n]"""
        if self.log.size() == 0:
            return np.empty(0, dtype=LOG_ENTRY)
        return copy_out(&self.log[0], self.log.size(), LOG_ENTRY)

    @property
    def settled(self):
        """Entries at the beginning that no collection reads again."""
        return self.log.settled()

    def backtrack(self, graph, *, double offset=0.0, cbool alive=True):
        """Returns (arcs, total_cost, reached_final)."""
        cdef Path path = cpp_backtrack(view_of(graph), self.tokens, self.log, offset, alive)
        return copy_out(path.arcs.data(), path.arcs.size(), np.uint32), path.total_cost, path.reached_final


cdef class HistoryStages:
    """The stages of a search that rescores with histories in their keys, from recombine on; frame after frame.

    Parameters
    ----------
    graph : arcbeam.Graph
    rescoring : arcbeam.ctc.rescoring.Rescoring
    hypotheses_per_state : int
        0 for no limit.
    """

    cdef CppHistoryStages* stages
    cdef object kept

    def __cinit__(self, graph, rescoring, *, uint32_t hypotheses_per_state=0):
        self.kept = graph, rescoring
        cdef RescoringOptions options = RescoringOptions(hypotheses_per_state)
        self.stages = new CppHistoryStages(view_of(graph), rescoring_view_of(rescoring), options)

    def __dealloc__(self):
        del self.stages

    def start(self):
        """HISTORY[1] of a sentence that begins."""
        cdef History history = self.stages.start()
        return copy_out(&history, 1, HISTORY)

    def recombine(self, candidates, deviations, float bound, histories, uint32_t first_log):
        """Returns (frontier, its histories): one winner a state and history.

        `histories` are those of the tokens from which candidates come, whose log entries end at ``first_log``.
        """
        cdef Buffer[Candidate] buffer
        cdef Buffer[Deviation] added
        cdef Buffer[History] of_tokens
        fill_candidates(buffer, candidates)
        fill_deviations(added, deviations)
        fill_histories(of_tokens, histories)
        self.stages.recombine(buffer, added, bound, of_tokens, first_log)
        return self._frontier()

    def closure(self):
        """Returns (frontier, its histories) with what epsilon arcs reach, and with those that were cut."""
        self.stages.close()
        return self._frontier()

    def cut(self):
        """Returns (frontier, its histories) with the best hypotheses of each state alone."""
        self.stages.compact()
        return self._frontier()

    def backtrack(self, TokenLog log):
        """Returns (arcs, total_cost, reached_final), once ``log`` has pruned the frontier."""
        cdef Path path = self.stages.backtrack(log.tokens, log.log)
        return copy_out(path.arcs.data(), path.arcs.size(), np.uint32), path.total_cost, path.reached_final

    cdef _frontier(self):
        cdef const Frontier* frontier = &self.stages.frontier()
        cdef const Buffer[History]* histories = &self.stages.histories()
        return (copy_out((<Frontier*> frontier).begin(), (<Frontier*> frontier).size(), CANDIDATE),
                copy_out((<Buffer[History]*> histories).begin(), (<Buffer[History]*> histories).size(), HISTORY))
