# distutils: extra_compile_args = -O3
"""The border to the outputs of lattices: n-best lists, posteriors, confidences, minimum Bayes risk, pruning."""

import numpy as np

from libc.math cimport isfinite, isnan
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.utility cimport move
from libcpp.vector cimport vector
from posix.unistd cimport getpid

from arcbeam.core._pooled_engine cimport AnyEngine
from arcbeam.arrays._vectors cimport into_vector
from arcbeam.ctc.lattice._lattices cimport Lattice, Lattices
from arcbeam.graph._graph_view cimport OpenColumn, OpenGraph, open_view_of
from arcbeam.graph._words cimport PathLabels, WordReader
from arcbeam.ctc.lattice.answers import (
    STEP_LIMIT, EntryLabels, LatticeAnswers, Mbr, MbrBatch, Nbest, Oracle, Posteriors,
)


cdef extern from "lattice/answers.hpp" namespace "arcbeam::lattice" nogil:
    cdef cppclass Scaled:
        pass

    cdef cppclass Weights:
        void set(const Lattice&, double scale) except +

    void sum_forward(const Lattice&, const Weights&, vector[Scaled]&) except +
    void sum_backward(const Lattice&, const Weights&, vector[Scaled]&) except +

    cdef cppclass CppPosteriors "arcbeam::lattice::Posteriors":
        vector[double] links
        double log_total

    CppPosteriors cpp_posteriors "arcbeam::lattice::posteriors"(const Lattice&, double scale) except +

    cdef cppclass NbestSearch:
        void search "operator()"(const Lattice&, const uint32_t*, const Weights&, const Scaled&, uint32_t, uint64_t,
                                 CppNbest&) except +

    cdef cppclass MbrDecoder:
        cbool confidences(const Lattice&, const uint32_t*, const Weights&, const vector[Scaled]&, uint64_t,
                          vector[double]&) except +
        void decode(const Lattice&, const uint32_t*, const Weights&, const vector[Scaled]&, uint64_t,
                    CppMbr&) except +

    void words_of_links(const Lattice&, const OpenColumn[uint32_t]&, vector[uint32_t]&) except +


cdef extern from "lattice/prune.hpp" namespace "arcbeam::lattice" nogil:
    cdef cppclass Pruned:
        Lattice lattice
        vector[uint32_t] tokens
        vector[uint32_t] links

    Pruned cpp_prune "arcbeam::lattice::prune"(const Lattice&, float beam) except +


cdef extern from "lattice/oracle.hpp" namespace "arcbeam::lattice" nogil:
    cdef cppclass CppOracle "arcbeam::lattice::Oracle":
        uint32_t errors
        vector[uint32_t] links

    const size_t kOracleRoom
    CppOracle cpp_oracle "arcbeam::lattice::oracle"(const Lattice&, const uint32_t*, const vector[uint32_t]&,
                                                    size_t room) except +


cdef class AnswerEngine(PooledEngine):
    """Threads that compute outputs of lattices of one graph; calls take turns."""

    def __cinit__(self, graph, *, size_t threads):
        self.graph = graph
        self.threads = threads  # which start when they are first needed

    cdef AnyEngine* new_pool(self) except NULL:
        self.engine = new CppAnswerEngine(self.threads)
        return self.engine

    def __dealloc__(self):
        self.close()

    def cancel(self):
        """Ends the batch early that another thread waits for, and all later ones; their results must not be used."""
        self.cancelled = True
        if self.pool != NULL and self.process == getpid():
            self.pool.cancel()

    def answers(self, Lattices lattices, request):
        """LatticeAnswers: what an AnswerRequest asks for."""
        cdef vector[Query] batch
        cdef size_t i
        with self.decoding_lock():
            self.ready()
            batch = self._queries(request, lattices.found.size())
            for i in range(batch.size()):
                batch[i].lattice = &lattices.found[i]
            self.engine.start(move(batch))
            if self.cancelled:  # before, when there was nothing to cancel
                self.engine.cancel()
            self.finish()
            return self.taken()

    cdef int begin(self, request, size_t utterances) except -1:
        """Takes an AnswerRequest, or None, for lattices that will be made on the threads; under the `decoding_lock`."""
        self.ready()
        self.engine.begin(self._queries(request, 0 if request is None else utterances))
        return 0

    cdef LatticePool* lattice_pool(self) except NULL:
        """The threads, as long as the caller has the `decoding_lock`."""
        self.ready()
        return self.engine

    cdef vector[Query] _queries(self, request, size_t utterances) except *:
        cdef vector[Query] batch
        cdef Query query
        cdef WordReader reader
        cdef size_t i
        self.readers, viewed = [], None
        if request is not None:
            check_scale(request.posterior_scale)
            self.options = AnswerOptions(request.nbest, request.confidence, request.mbr, request.posterior_scale,
                                         request.step_limit)
            self.has_labels = request.labels
        query.lattice = NULL
        query.options = &self.options
        query.reader = NULL
        batch.reserve(utterances)
        for i in range(utterances):
            graph = self.graph if request.graphs is None else request.graphs[i]
            if graph is not viewed:
                viewed = graph
                query.words = open_view_of(graph).words
                if self.has_labels:
                    reader = graph.word_reader
                    self.readers.append(reader)
                    query.reader = &reader.spans
            batch.push_back(query)
        return move(batch)

    cdef object taken(self):
        """LatticeAnswers of the batch that all threads have answered; raises MemoryError where one had too little."""
        try:
            return self._read()
        finally:
            self.engine.results().clear()  # paths of long lists are large
            self.readers = None

    cdef object _read(self):
        cdef const vector[Answer]* found = &self.engine.results()
        cdef const Answer* one
        cdef size_t utterances = found.size(), entries = 0, arcs = 0, words = 0, i, k
        for i in range(utterances):
            one = &found.at(i)
            if one.outcome == AnswerOutcome.kOutOfMemory:
                raise MemoryError(f"out of memory for the answers of utterance {i}: use a smaller lattice_beam or nbest, "
                                  f"or fewer threads")
            entries += one.costs.size()
            arcs += one.arcs.size()
            words += one.confidences.size()
        made = {"first_entry": np.zeros(utterances + 1, np.int64), "costs": np.empty(entries),
                "posteriors": np.empty(entries), "first_arc": np.zeros(entries + 1, np.int64),
                "arcs": np.empty(arcs, np.uint32), "nbest_truncated": np.empty(utterances, np.bool_),
                "first_word": np.zeros(utterances + 1, np.int64), "confidences": np.empty(words),
                "confidence_truncated": np.empty(utterances, np.bool_)}
        cdef long long[::1] first_entry = made["first_entry"], first_arc = made["first_arc"]
        cdef long long[::1] first_word = made["first_word"]
        cdef double[::1] costs = made["costs"], posteriors_ = made["posteriors"], confidences = made["confidences"]
        cdef uint32_t[::1] arcs_ = made["arcs"]
        cdef uint8_t[::1] nbest_truncated = made["nbest_truncated"].view(np.uint8)
        cdef uint8_t[::1] confidence_truncated = made["confidence_truncated"].view(np.uint8)
        entries = arcs = words = 0
        for i in range(utterances):
            one = &found.at(i)
            for k in range(one.costs.size()):
                costs[entries + k], posteriors_[entries + k] = one.costs[k], one.nbest.posteriors[k]
                first_arc[entries + k + 1] = arcs + one.nbest.first_link[k + 1]
            if one.arcs.size():
                memcpy(&arcs_[arcs], one.arcs.data(), one.arcs.size() * sizeof(uint32_t))
            if one.confidences.size():
                memcpy(&confidences[words], one.confidences.data(), one.confidences.size() * sizeof(double))
            entries += one.costs.size()
            arcs += one.arcs.size()
            words += one.confidences.size()
            first_entry[i + 1], first_word[i + 1] = entries, words
            nbest_truncated[i], confidence_truncated[i] = one.nbest.truncated, one.confidence_truncated
        return LatticeAnswers(**made, labels=self._read_labels() if self.has_labels else None,
                              mbr=self._read_mbr() if self.options.mbr else None)

    cdef object _read_labels(self):
        cdef const vector[Answer]* found = &self.engine.results()
        cdef const PathLabels* one
        cdef size_t entries = 0, labels = 0, i, k
        for i in range(found.size()):
            entries += found.at(i).labels.path_ends.size()
            labels += found.at(i).labels.labels.size()
        made = {"first_label": np.zeros(entries + 1, np.int64), "labels": np.empty(labels, np.uint32),
                "starts": np.empty(labels, np.int64), "ends": np.empty(labels, np.int64)}
        cdef int64_t[::1] first_label = made["first_label"], starts = made["starts"], ends = made["ends"]
        cdef uint32_t[::1] labels_ = made["labels"]
        entries = labels = 0
        for i in range(found.size()):
            one = &found.at(i).labels
            for k in range(one.path_ends.size()):
                first_label[entries + k + 1] = labels + one.path_ends[k]
            if one.labels.size():
                memcpy(&labels_[labels], one.labels.data(), one.labels.size() * sizeof(uint32_t))
                memcpy(&starts[labels], one.starts.data(), one.labels.size() * sizeof(int64_t))
                memcpy(&ends[labels], one.ends.data(), one.labels.size() * sizeof(int64_t))
            entries += one.path_ends.size()
            labels += one.labels.size()
        return EntryLabels(**made)

    cdef object _read_mbr(self):
        cdef const vector[Answer]* found = &self.engine.results()
        cdef const CppMbr* one
        cdef size_t utterances = found.size(), words = 0, positions = 0, rivals = 0, i, k
        for i in range(utterances):
            one = &found.at(i).mbr
            words += one.words.size()
            positions += one.first_rival.size() - (not one.first_rival.empty())
            rivals += one.rivals.size()
        made = {"first_word": np.zeros(utterances + 1, np.int64), "words": np.empty(words, np.uint32),
                "confidences": np.empty(words), "begins": np.empty(words), "ends": np.empty(words),
                "same_as": np.empty(words, np.uint32), "errors": np.empty(utterances), "first_position": np.zeros(utterances + 1, np.int64),
                "first_rival": np.zeros(positions + 1, np.int64), "rivals": np.empty(rivals, np.uint32),
                "posteriors": np.empty(rivals), "truncated": np.empty(utterances, np.bool_)}
        cdef long long[::1] first_word = made["first_word"], first_position = made["first_position"]
        cdef long long[::1] first_rival = made["first_rival"]
        cdef uint32_t[::1] words_ = made["words"], same_as = made["same_as"], rivals_ = made["rivals"]
        cdef double[::1] confidences = made["confidences"], begins = made["begins"], ends = made["ends"]
        cdef double[::1] errors = made["errors"], posteriors_ = made["posteriors"]
        cdef uint8_t[::1] truncated = made["truncated"].view(np.uint8)
        words = positions = rivals = 0
        for i in range(utterances):
            one = &found.at(i).mbr
            for k in range(one.words.size()):
                words_[words + k], confidences[words + k] = one.words[k], one.confidences[k]
                begins[words + k], ends[words + k], same_as[words + k] = one.begins[k], one.ends[k], one.same_as[k]
            for k in range(1, one.first_rival.size()):
                first_rival[positions + k] = rivals + one.first_rival[k]
            for k in range(one.rivals.size()):
                rivals_[rivals + k], posteriors_[rivals + k] = one.rivals[k], one.posteriors[k]
            words += one.words.size()
            positions += one.first_rival.size() - (not one.first_rival.empty())
            rivals += one.rivals.size()
            first_word[i + 1], first_position[i + 1] = words, positions
            errors[i], truncated[i] = one.errors, one.truncated
        return MbrBatch(**made)


def link_words(Lattices lattices, size_t index, graph):
    """The word of each link of a lattice: uint32[links], 0 for none."""
    cdef const Lattice* lattice = lattice_of(lattices, index)
    cdef OpenGraph opened = open_view_of(graph)
    cdef vector[uint32_t] words
    with nogil:
        words_of_links(lattice[0], opened.words, words)
    return uint32s(words)


def posteriors(Lattices lattices, size_t index, *, double scale=1.0):
    """Posteriors: of each link of a lattice, and the logarithm of the total."""
    check_scale(scale)
    cdef const Lattice* lattice = lattice_of(lattices, index)
    cdef CppPosteriors found
    with nogil:
        found = cpp_posteriors(lattice[0], scale)
    return Posteriors(doubles(found.links), found.log_total)


def nbest(Lattices lattices, size_t index, words, uint32_t n, *, double scale=1.0, uint64_t step_limit=STEP_LIMIT):
    """Nbest: the n best distinct word sequences; `words`: uint32[links], 0 for none; `scale`: of posteriors."""
    check_nbest(n)
    check_scale(scale)
    cdef const Lattice* lattice = lattice_of(lattices, index)
    cdef vector[uint32_t] words_ = words_for(lattice, words)
    cdef Weights weights
    cdef vector[Scaled] sums
    cdef NbestSearch search
    cdef CppNbest found
    if lattice.states.empty():
        return Nbest(np.empty(0), np.empty(0), np.zeros(1, np.uint32), np.empty(0, np.uint32), False)
    with nogil:
        weights.set(lattice[0], scale)
        sum_backward(lattice[0], weights, sums)
        search.search(lattice[0], words_.data(), weights, sums[0], n, step_limit, found)
    return Nbest(lattice.total_cost + doubles(found.excesses), doubles(found.posteriors), uint32s(found.first_link),
                 uint32s(found.links), found.truncated)


def confidences(Lattices lattices, size_t index, words, *, double scale=1.0, uint64_t step_limit=STEP_LIMIT):
    """The confidence of each word of the hypothesis: float64[words], and whether distances were computed in bands."""
    check_scale(scale)
    cdef const Lattice* lattice = lattice_of(lattices, index)
    cdef vector[uint32_t] words_ = words_for(lattice, words)
    cdef Weights weights
    cdef vector[Scaled] sums
    cdef MbrDecoder decoder
    cdef vector[double] found
    cdef cbool truncated = False
    if not lattice.states.empty():
        with nogil:
            weights.set(lattice[0], scale)
            sum_forward(lattice[0], weights, sums)
            truncated = decoder.confidences(lattice[0], words_.data(), weights, sums, step_limit, found)
    return doubles(found), truncated


def mbr(Lattices lattices, size_t index, words, *, double scale=1.0, uint64_t step_limit=STEP_LIMIT):
    """Mbr: the words of the smallest expected number of errors, and the confusion network."""
    check_scale(scale)
    cdef const Lattice* lattice = lattice_of(lattices, index)
    cdef vector[uint32_t] words_ = words_for(lattice, words)
    cdef Weights weights
    cdef vector[Scaled] sums
    cdef MbrDecoder decoder
    cdef CppMbr found
    found.errors, found.truncated = 0.0, False
    found.first_rival.push_back(0)
    if not lattice.states.empty():
        with nogil:
            weights.set(lattice[0], scale)
            sum_forward(lattice[0], weights, sums)
            decoder.decode(lattice[0], words_.data(), weights, sums, step_limit, found)
    return Mbr(uint32s(found.words), doubles(found.confidences), doubles(found.begins), doubles(found.ends),
               uint32s(found.same_as), found.errors, uint32s(found.first_rival), uint32s(found.rivals),
               doubles(found.posteriors), found.truncated)


def prune(Lattices lattices, size_t index, double beam):
    """Lattices of one lattice, pruned to a beam in nats; the old numbers of its tokens and links, uint32."""
    if isnan(beam) or beam < 0:
        raise ValueError(f"expected a beam of at least 0, got {beam}")
    cdef const Lattice* lattice = lattice_of(lattices, index)
    cdef Lattices made = Lattices()
    cdef Pruned pruned
    with nogil:
        pruned = cpp_prune(lattice[0], <float> beam)
    made.found.push_back(move(pruned.lattice))
    return made, uint32s(pruned.tokens), uint32s(pruned.links)


def oracle(Lattices lattices, size_t index, words, reference, *, size_t room=kOracleRoom):
    """Oracle: the path nearest to the word ids `reference`; `room`: bytes for rows of distances, more is faster."""
    cdef const Lattice* lattice = lattice_of(lattices, index)
    cdef vector[uint32_t] words_ = words_for(lattice, words)
    cdef vector[uint32_t] reference_
    cdef CppOracle found
    into_vector[uint32_t](reference_, np.ascontiguousarray(reference, np.uint32))
    with nogil:
        found = cpp_oracle(lattice[0], words_.data(), reference_, room)
    return Oracle(found.errors, uint32s(found.links))


cdef const Lattice* lattice_of(Lattices lattices, size_t index) except NULL:
    if index >= lattices.found.size():
        raise IndexError(f"expected an index below {lattices.found.size()}, got {index}")
    return &lattices.found[index]


cdef vector[uint32_t] words_for(const Lattice* lattice, words) except *:
    if len(words) != lattice.links.size():
        raise ValueError(f"expected one word for each of the lattice's {lattice.links.size()} links, got {len(words)}")
    cdef vector[uint32_t] made
    into_vector[uint32_t](made, np.ascontiguousarray(words, np.uint32))
    return move(made)


cdef int check_nbest(uint32_t n) except -1:
    if n == 0:
        raise ValueError("expected nbest of at least 1, got 0")
    return 0


cdef int check_scale(double scale) except -1:
    if not isfinite(scale) or scale < 0:
        raise ValueError(f"expected a posterior scale of at least 0, and finite, got {scale}")
    return 0


cdef uint32s(const vector[uint32_t]& values):
    found = np.empty(values.size(), np.uint32)
    cdef uint32_t[::1] into = found
    if values.size():
        memcpy(&into[0], values.data(), values.size() * sizeof(uint32_t))
    return found


cdef doubles(const vector[double]& values):
    found = np.empty(values.size())
    cdef double[::1] into = found
    if values.size():
        memcpy(&into[0], values.data(), values.size() * sizeof(double))
    return found
