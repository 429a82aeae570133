"""Threads of the host that answer lanes' questions about a large language model: see ``cuda/shared/requests.hpp``."""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from arcbeam.lm._kenlm cimport KenLm, KenLmModel
from arcbeam.lm._lm_view cimport LmView


cdef extern from "shared/requests.hpp" namespace "arcbeam" nogil:
    cdef enum class Requested "arcbeam::Requested"(uint32_t):
        nobody
        arcs
        model

    cdef struct Question:
        uint32_t state
        uint32_t label

    cdef struct Answer:
        float cost
        uint32_t next_state

    cdef struct RequestView:
        unsigned char* memory
        unsigned char* mapped
        unsigned char* answer_buffer
        uint32_t size
        uint32_t slot

    const uint32_t kHalves
    const uint32_t kRequestHeadBytes
    uint64_t request_table_bytes(uint64_t size)
    uint64_t request_buffer_bytes(uint64_t size)
    uint64_t answer_buffer_start_bytes(uint64_t slots)
    uint64_t answer_buffer_bytes(uint64_t slots, uint64_t size)


cdef extern from "arcbeam/ctc/gpu/models/_requests/answerer.hpp" namespace "arcbeam::requests" nogil:
    cdef cppclass Answerer:
        pass

    cdef cppclass ArcAnswerer(Answerer):
        ArcAnswerer(const LmView&) except +


cdef extern from "arcbeam/ctc/gpu/models/_requests/kenlm_answerer.hpp" namespace "arcbeam::requests" nogil:
    cdef cppclass KenLmAnswerer(Answerer):
        KenLmAnswerer(const KenLm&, const uint32_t* ranks) except +
        size_t words_a_state()
        size_t size()
        size_t bytes_a_state()
        void begin(uint32_t* words, size_t capacity) except +
        void move(uint32_t* words, size_t capacity) except +
        size_t state_size()
        uint32_t number(const void* state)


cdef extern from "arcbeam/ctc/gpu/models/_requests/trace.hpp" namespace "arcbeam::requests" nogil:
    const uint32_t kWatch

    cdef struct Span:
        int64_t began_ns
        int64_t ended_ns
        uint32_t thread
        uint32_t lane
        uint32_t round
        uint32_t questions


cdef extern from "arcbeam/ctc/gpu/models/_requests/answer_path.hpp" namespace "arcbeam::requests" nogil:
    cdef cppclass AnswerPath:
        pass

    cdef cppclass Mapped(AnswerPath):
        Mapped()


cdef extern from "arcbeam/ctc/gpu/models/_requests/answer_copier.hpp" namespace "arcbeam::requests" nogil:
    cdef cppclass AnswerCopier:
        pass


cdef extern from "arcbeam/ctc/gpu/models/_requests/copied_answers.hpp" namespace "arcbeam::requests" nogil:
    cdef cppclass CopiedAnswers(AnswerPath):
        CopiedAnswers(AnswerCopier&) except +
        void begin(const vector[RequestView]&, unsigned char** buffers) except +
        void stop()
        void send_open()
        int failure()
        uint64_t answer_batches()
        uint64_t bytes()


cdef extern from "arcbeam/ctc/gpu/models/_requests/server.hpp" namespace "arcbeam::requests" nogil:
    cdef cppclass Server:
        Server(Answerer&, size_t threads, AnswerPath&) except +
        void watch(const vector[RequestView]&) except +
        void stop()
        cbool answer_all(const vector[RequestView]&) except +
        void trace(size_t most) except +
        vector[Span] traced() except +
        uint64_t rounds()
        uint64_t questions()


cdef class HostLookups:
    cdef object rescoring
    cdef Answerer* answerer
    cdef KenLmAnswerer* kenlm  # the same object, for Requested.model
    cdef AnswerCopier* copier
    cdef CopiedAnswers* copied_answers  # NULL: lanes read answers where the host has written them
    cdef AnswerPath* answer_path  # this object, or another
    cdef Server* server
    cdef size_t threads
    cdef readonly uint32_t words_a_history
    cdef int copy_by(self, AnswerCopier* copier) except -1
    cdef int copy_to(self, const vector[RequestView]& lanes, unsigned char** buffers) except -1
    cdef bint copies(self) noexcept
    cdef int failure(self) noexcept
    cdef uint64_t answer_batches(self) noexcept
    cdef uint64_t copied_bytes(self) noexcept
    cdef void send_open(self) noexcept nogil
    cdef int start(self) except -1
    cdef int watch(self, const vector[RequestView]& lanes) except -1
    cdef void stop(self) noexcept nogil
    cdef int answer_all(self, const vector[RequestView]& lanes) except -1
    cdef int number_anew(self, uint32_t* words, size_t capacity) except -1
