"""The threads that answer lattices, for an engine that makes lattices on them."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.core._pooled_engine cimport AnyEngine, PooledEngine
from arcbeam.ctc.lattice._lattices cimport Lattice
from arcbeam.graph._graph_view cimport OpenColumn
from arcbeam.graph._words cimport LabelReader, PathLabels


cdef extern from "lattice/lattice_pool.hpp" namespace "arcbeam::lattice" nogil:
    cdef cppclass LatticePool:
        pass


cdef extern from "lattice/answers.hpp" namespace "arcbeam::lattice" nogil:
    cdef struct AnswerOptions:
        uint32_t nbest
        cbool confidence
        cbool mbr
        double posterior_scale
        uint64_t step_limit

    cdef cppclass CppNbest "arcbeam::lattice::Nbest":
        vector[double] excesses
        vector[double] posteriors
        vector[uint32_t] first_link
        vector[uint32_t] links
        cbool truncated

    cdef cppclass CppMbr "arcbeam::lattice::Mbr":
        vector[uint32_t] words
        vector[double] confidences
        vector[double] begins
        vector[double] ends
        vector[uint32_t] same_as
        double errors
        cbool truncated
        vector[uint32_t] first_rival
        vector[uint32_t] rivals
        vector[double] posteriors

    cdef struct Query:
        const Lattice* lattice
        OpenColumn[uint32_t] words
        const AnswerOptions* options
        const LabelReader* reader

    cdef enum class AnswerOutcome(uint8_t):
        kAnswered
        kOutOfMemory
        kCancelled

    cdef cppclass Answer:
        CppNbest nbest
        vector[double] costs
        vector[uint32_t] arcs
        PathLabels labels
        vector[double] confidences
        cbool confidence_truncated
        CppMbr mbr
        AnswerOutcome outcome

    cdef cppclass CppAnswerEngine "arcbeam::lattice::AnswerEngine"(AnyEngine, LatticePool):
        CppAnswerEngine(size_t threads) except +
        void start(vector[Query]) except +
        void begin(vector[Query]) except +
        vector[Answer]& results()


cdef class AnswerEngine(PooledEngine):
    cdef CppAnswerEngine* engine
    cdef AnswerOptions options
    cdef object graph
    cdef list readers  # of the batch, which they must outlive
    cdef cbool has_labels  # whether those of entries were requested
    cdef cbool cancelled
    cdef int begin(self, request, size_t utterances) except -1
    cdef LatticePool* lattice_pool(self) except NULL
    cdef object taken(self)
    cdef vector[Query] _queries(self, request, size_t utterances) except *
    cdef object _read(self)
    cdef object _read_labels(self)
    cdef object _read_mbr(self)
