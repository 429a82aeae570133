"""The Cython declarations of ``pyx/arcbeam/arrays/_input_checks/input_checks.hpp``, and its owner."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector


cdef extern from "arcbeam/arrays/_input_checks/input_checks.hpp" namespace "arcbeam::input_checks" nogil:
    cdef struct Pick:
        size_t utterance
        uint32_t frame
        const unsigned char* row
        cbool is_half

    cdef enum Finding:
        kAboveZero, kSumsAbove, kSumsBelow, kBlankSeldom, kTooLow

    cdef struct Sight:
        size_t utterance
        uint32_t frame
        double value

    cdef cppclass CppInputChecks "arcbeam::input_checks::InputChecks":
        CppInputChecks(uint32_t columns, int32_t blank, cbool is_exact) except +
        void pick(const int64_t* table, size_t utterances, size_t most)
        const vector[Pick]& picks()
        void check(const Pick&, const void* row)
        uint32_t found()
        const Sight& sight(Finding)
        uint32_t columns()
        uint32_t counted()
        uint32_t best_in(uint32_t column)
        uint32_t most_often_best()


cdef class InputChecks:
    cdef unique_ptr[CppInputChecks] checks
    cdef public uint32_t reported
    cdef readonly bint has_news
    cdef void pick(self, const int64_t[:, ::1] utterances, size_t most) noexcept
    cdef void check_frame(self, const Pick* pick, const void* row) noexcept
    cdef void at(self, const int64_t[:, ::1] utterances) noexcept
